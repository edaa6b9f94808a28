// The growing string, and the edit distance behind every "did you mean".
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_text_free(ls_text *text) {
    free(text->data);
    *text = (ls_text){0};
}

static bool reserve(ls_text *text, size_t extra) {
    if (text->failed || extra >= (size_t)-1 / 4 - text->length) {
        text->failed = true;
        return false;
    }
    size_t needed = text->length + extra + 1;
    if (needed <= text->capacity) {
        return true;
    }
    size_t capacity = text->capacity != 0 ? text->capacity : 64;
    while (capacity < needed) {
        capacity *= 2;
    }
    char *data = realloc(text->data, capacity);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void ls_text_append(ls_text *text, const char *data, size_t length) {
    if (!reserve(text, length)) {
        return;
    }
    if (length != 0) {
        memcpy(text->data + text->length, data, length);
    }
    text->length += length;
    text->data[text->length] = 0;
}

void ls_text_puts(ls_text *text, const char *string) {
    ls_text_append(text, string, strlen(string));
}

void ls_text_printf(ls_text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    LS_ASSERT(length >= 0);
    if (!reserve(text, (size_t)length)) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text->data + text->length, (size_t)length + 1, format, args);
    va_end(args);
    text->length += (size_t)length;
}

void ls_text_repeat(ls_text *text, char c, size_t count) {
    if (!reserve(text, count)) {
        return;
    }
    memset(text->data + text->length, c, count);
    text->length += count;
    text->data[text->length] = 0;
}

size_t ls_text_utf8_length(const unsigned char *s, size_t bytes) {
    size_t length = 1;
    if (s[0] >= 0x80) {
        length = s[0] >= 0xc2 && s[0] <= 0xf4 ? 2U + (s[0] >= 0xe0) + (s[0] >= 0xf0) : 0;
    }
    if (length > bytes) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {  // the end of a string too
            return 0;
        }
    }
    bool bad = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||  // surrogates
               (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
    return bad ? 0 : length;
}

size_t ls_text_printable(const char *text, size_t bytes) {
    const unsigned char *s = (const unsigned char *)text;
    if (bytes == 0 || s[0] < 0x80) {
        return bytes > 0 && s[0] >= 0x20 && s[0] != 0x7f ? 1 : 0;
    }
    size_t length = ls_text_utf8_length(s, bytes);
    if (length == 0) {
        return 0;
    }
    bool bad = (s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe) ||  // U+FFFE, U+FFFF
               (s[0] == 0xe2 && s[1] == 0x80 &&                   // bidirectional overrides
                ((s[2] >= 0xa8 && s[2] <= 0xae) || s[2] == 0x8e || s[2] == 0x8f)) ||
               (s[0] == 0xe2 && s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9) ||
               (s[0] == 0xc2 && s[1] < 0xa0);  // C1 controls
    return bad ? 0 : length;
}

void ls_text_plain(ls_text *text, const char *data, size_t bytes) {
    for (size_t i = 0; i < bytes && data[i] != 0;) {
        size_t length = ls_text_printable(data + i, bytes - i);
        if (length == 0) {
            ls_text_puts(text, data[i] == '\t' ? " " : "?");
            length = 1;
        } else {
            ls_text_append(text, data + i, length);
        }
        i += length;
    }
}

void ls_text_plain_lines(ls_text *text, const char *data, size_t bytes) {
    for (size_t i = 0; i < bytes;) {
        const char *end = memchr(data + i, '\n', bytes - i);
        size_t length = end != NULL ? (size_t)(end - data) - i : bytes - i;
        ls_text_plain(text, data + i, length);
        ls_text_puts(text, end != NULL ? "\n" : "");
        i += length + 1;
    }
}

void ls_text_xml(ls_text *out, const char *text) {
    size_t left = text != NULL ? strlen(text) : 0;
    for (size_t length = 0; left > 0; text += length, left -= length) {
        length = *text == '\n' || *text == '\t' ? 1 : ls_text_printable(text, left);
        if (length == 0) {
            ls_text_puts(out, "\xef\xbf\xbd");
            length = 1;
        } else if (*text == '<') {
            ls_text_puts(out, "&lt;");
        } else if (*text == '>') {
            ls_text_puts(out, "&gt;");
        } else if (*text == '&') {
            ls_text_puts(out, "&amp;");
        } else if (*text == '"') {
            ls_text_puts(out, "&quot;");
        } else if (*text == '\'') {
            ls_text_puts(out, "&#39;");
        } else {
            ls_text_append(out, text, length);
        }
    }
}

void ls_text_shell(ls_text *text, const char *word) {
    static const char *const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_-./:=,+@%^";
    size_t bytes = strlen(word);
    if (bytes > 0 && strspn(word, safe) == bytes) {
        ls_text_puts(text, word);
        return;
    }
    bool printable = true;
    for (size_t i = 0, length = 1; i < bytes && length != 0; i += length) {
        length = ls_text_printable(word + i, bytes - i);
        printable = length != 0;
    }
    ls_text_puts(text, printable ? "'" : "$'");
    for (size_t i = 0, length = 0; i < bytes; i += length) {
        length = ls_text_printable(word + i, bytes - i);
        if (length == 0) {
            ls_text_printf(text, "\\x%02x", (unsigned)(unsigned char)word[i]);
            length = 1;
        } else if (word[i] == '\'') {
            ls_text_puts(text, printable ? "'\\''" : "\\'");
        } else if (word[i] == '\\' && !printable) {
            ls_text_puts(text, "\\\\");
        } else {
            ls_text_append(text, word + i, length);
        }
    }
    ls_text_puts(text, "'");
}

const char *ls_text_string(const ls_text *text) {
    return text->data != NULL ? text->data : "";
}

#define EDIT_LENGTH_MAX 63

size_t ls_edit_distance(const char *a, const char *b, size_t limit) {
    size_t a_length = strlen(a);
    size_t b_length = strlen(b);
    if (a_length > EDIT_LENGTH_MAX || b_length > EDIT_LENGTH_MAX) {
        return limit + 1;
    }
    size_t rows[3][EDIT_LENGTH_MAX + 1];  // of the last two letters of a, and of this one
    for (size_t j = 0; j <= b_length; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t change = above[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0);
            size_t least = above[j] < row[j - 1] ? above[j] + 1 : row[j - 1] + 1;
            least = change < least ? change : least;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                size_t swap = rows[(i - 2) % 3][j - 2] + 1;
                least = swap < least ? swap : least;
            }
            row[j] = least;
        }
    }
    size_t distance = rows[a_length % 3][b_length];
    return distance <= limit ? distance : limit + 1;
}

static size_t word_length(const char *name) {
    return strcspn(name, "_-");
}

// How many words a name has where all of them stand in `longer` in their order; 0: they do not.
static size_t words_within(const char *name, const char *longer) {
    size_t words = 0;
    while (*name != '\0' && *longer != '\0') {
        size_t length = word_length(name), other = word_length(longer);
        if (length == other && memcmp(name, longer, length) == 0) {
            words += 1;
            name += length + (name[length] != '\0' ? 1 : 0);
        }
        longer += other + (longer[other] != '\0' ? 1 : 0);
    }
    return *name == '\0' ? words : 0;
}

// Whether two words have the same letters and digits, whatever their case and what joins them.
static bool same_letters(const char *a, const char *b) {
    for (;; a++, b++) {
        while (*a == '_' || *a == '-' || *a == ' ') {
            a++;
        }
        while (*b == '_' || *b == '-' || *b == ' ') {
            b++;
        }
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) {
            return false;
        }
        if (*a == 0) {
            return true;
        }
    }
}

const char *ls_nearest(const char *word, const char *const *names, size_t count) {
    size_t length = strlen(word);
    size_t limit = length <= 7 ? 2 : 3;
    if (length <= 1) {
        limit = 0;
    } else if (length <= 3) {
        limit = 1;
    }
    size_t best_distance = limit + 1;
    const char *best = NULL;
    for (size_t i = 0; i < count; i++) {
        if (word[0] != 0 && same_letters(word, names[i])) {
            return names[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        size_t distance = ls_edit_distance(word, names[i], limit);
        if (distance < best_distance) {
            best_distance = distance;
            best = names[i];
        }
    }
    // Too many or too few words: two must match, since one is in many names.
    for (size_t i = 0; i < count && best == NULL; i++) {
        bool within = words_within(names[i], word) > 1 || words_within(word, names[i]) > 1;
        best = within ? names[i] : NULL;
    }
    return best;
}
