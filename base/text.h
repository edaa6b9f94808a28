// A growing string, for reports and messages that are assembled piece by piece.
#ifndef LS_BASE_TEXT_H
#define LS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// {0} is an empty text. Out of memory is remembered, not returned: check `failed` at the end.
typedef struct ls_text {
    char *data;       // 0-terminated once anything was added; NULL before
    size_t length;    // bytes without the 0
    size_t capacity;  //
    bool failed;      // an append found no memory; the text is incomplete
} ls_text;

LS_API void ls_text_free(ls_text *text);
LS_API_BACKENDS void ls_text_append(ls_text *text, const char *data, size_t length);
LS_API_BACKENDS void ls_text_puts(ls_text *text, const char *string);
LS_API_BACKENDS void ls_text_printf(ls_text *text, const char *format, ...) LS_PRINTF(2, 3);
void ls_text_repeat(ls_text *text, char c, size_t count);
// Bytes of the first character of s [bytes] when it is UTF-8; else 0.
size_t ls_text_utf8_length(const unsigned char *s, size_t bytes);
// Bytes of the first character of text [bytes] when it is UTF-8 and no control character; else 0.
size_t ls_text_printable(const char *text, size_t bytes);
// Appends text [bytes], which may be hostile, as one harmless line: a tab becomes a space, and a
// control character or a byte that is no UTF-8, which a terminal might obey, a '?'.
void ls_text_plain(ls_text *text, const char *data, size_t bytes);
// The same for text of several lines, which stay lines.
void ls_text_plain_lines(ls_text *text, const char *data, size_t bytes);
// Appends text that is safe in XML and HTML, content and attributes alike: markup is escaped,
// control characters and bytes that are not UTF-8 become U+FFFD. NULL appends nothing.
void ls_text_xml(ls_text *out, const char *text);
// Appends `word` as one word of a bash command: as it stands, in quotes, or as $'...' where it has
// characters that cannot be printed.
void ls_text_shell(ls_text *text, const char *word);
LS_API const char *ls_text_string(const ls_text *text);  // "" while empty; borrowed

// Number of single-character edits between two strings, capped at `limit` (returns limit + 1 past
// it). For "did you mean".
size_t ls_edit_distance(const char *a, const char *b, size_t limit);
// The closest of names[count] to `word`, or NULL if none is near enough to suggest.
const char *ls_nearest(const char *word, const char *const *names, size_t count);

#ifdef __cplusplus
}
#endif
#endif
