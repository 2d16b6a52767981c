/* A page made of any document: nothing of it becomes markup. */
#include <stdlib.h>
#include <string.h>

#include "report/html.h"

/* Tags of the page's own begin with one of these; the rest of a text is escaped. */
static void expect_markup(const char *page, size_t n)
{
    for (const char *s = page, *end = page + n; (s = memchr(s, '<', (size_t)(end - s))); s++) {
        size_t name = strspn(s + 1 + (s[1] == '/'), "abcdefghijklmnopqrstuvwxyz123456!");
        if (name == 0 || name > 10) {
            abort();
        }
    }
    if (memchr(page, '\x1b', n)) {
        abort();
    }
}

static const char *shorter(void *ctx, const char *text)
{
    (void)ctx;
    return text[0] ? text + 1 : text;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena a;
    char *page = NULL;
    size_t n = 0;
    json_t *document = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL);
    FILE *file = document ? open_memstream(&page, &n) : NULL;
    arena_init(&a, 64 << 20, NULL, NULL);
    if (file) {
        int rc = report_html(file, &a, document);
        if (fclose(file) == 0 && rc == 0) {
            expect_markup(page, n);
        }
    }
    (void)!report_html_redact(document, shorter,
                              NULL); // of a text that begins in the middle of a sign
    free(page);
    json_decref(document);
    arena_release(&a);
    return 0;
}
