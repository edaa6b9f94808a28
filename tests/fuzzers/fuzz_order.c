// Texts of reduction orders. A parsed order is written again, with the same meaning.
#include <stdlib.h>
#include <string.h>

#include "fuzzers.h"
#include "orders/order.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *text = fuzz_text(data, bytes);
    ls_order *order = NULL, *again = NULL;
    if (ls_order_file(text) == NULL && ls_order_parse(&order, text) == LS_OK) {
        LS_ASSERT(ls_order_parse(&again, ls_order_text(order)) == LS_OK);
        LS_ASSERT(strcmp(ls_order_text(order), ls_order_text(again)) == 0);
    }
    ls_order_free(again);
    ls_order_free(order);
    free(text);
    return 0;
}
