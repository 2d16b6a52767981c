/* `gpumend why --batch`: the closure of each object of a list. */
#include "cli/why.h"

#include <string.h>

#include "base/str.h"
#include "cli/limit.h"

enum { LINE_MAX_BYTES = 64 << 10 };

/* Returns false if the object, or one that it needs, was not found. */
static bool batch_one(struct cli_why *w, const char *path)
{
    struct gm_err err = {.code = GM_ERR_NONE};
    struct arena scratch;
    cli_arena_init(&scratch);
    w->config.cwd = w->cwd;
    struct ldso_process *p = cli_why_process(w);
    p->arena = &scratch;
    int rc = ldso_start(p, w->exe ? w->exe : path, &err);
    if (rc == 0 && w->exe) {
        (void)ldso_dlopen(p, p->main, path, LDSO_NOW); // kept in p->loads
    }
    const char *wrong = rc < 0            ? err.text
                        : p->limit        ? p->limit
                        : p->start_failed ? p->start_error
                        : p->loads.n      ? p->loads.items[0].glibc_says
                                          : NULL;
    if (w->json) {
        const char *error = rc < 0 ? err.text : p->limit;
        json_t *doc = error ? json_pack("{s:i}", "schema", 1) : cli_why_document(p, p->loads.n);
        (void)json_object_set_new(doc, "file", out_json_text(&scratch, path));
        (void)json_object_set_new(doc, "error", out_json_text(&scratch, error));
        (void)!out_json_write(stdout, doc,
                              JSON_COMPACT); // checked once at the end, by cli_finish()
        json_decref(doc);
        putchar('\n');
    } else {
        printf("%s: ", str_printable(&scratch, path));
        if (wrong) {
            printf("%s\n", str_printable(&scratch, wrong));
        } else {
            printf("%zu objects%s%s\n", p->objects.n, p->by_cpu.n ? "; on some machines " : "",
                   p->by_cpu.n ? str_printable(&scratch, p->by_cpu.items[0]) : "");
        }
    }
    bool limit = p->limit != NULL;
    w->unknown |= p->by_cpu.n > 0 || limit;
    arena_release(&scratch);
    return !wrong || limit;
}

/* The next line, at most LINE_MAX_BYTES long: 1 got one, 0 at the end, -1 too long or unreadable.
 */
static int next_line(FILE *list, char *line)
{
    size_t n = 0;
    int c;
    while ((c = getc_unlocked(list)) != EOF && c != '\n') {
        if (n == LINE_MAX_BYTES || c == '\0') {
            return -1;
        }
        line[n++] = (char)c;
    }
    line[n] = '\0';
    return ferror(list) ? -1 : c == EOF && n == 0 ? 0 : 1;
}

/* Opens the list: a regular file, or standard input. */
static FILE *open_list(const char *path)
{
    struct stat st;
    if (strcmp(path, "-") == 0) {
        return stdin;
    }
    FILE *list = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "re") : NULL;
    return list;
}

int cli_why_batch(struct cli_why *w)
{
    FILE *list = open_list(w->batch);
    if (!list) {
        return cli_fail(CLI_CANNOT, "why: %s cannot be opened, or is not a regular file", w->batch);
    }
    char line[LINE_MAX_BYTES + 1];
    bool any_wrong = false;
    int rc;
    while ((rc = next_line(list, line)) > 0) {
        if (*line) {
            any_wrong |= !batch_one(w, line);
        }
    }
    if (list != stdin) {
        (void)fclose(list); // only read from
    }
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "why: %s is not a list of paths, one a line", w->batch);
    }
    return any_wrong ? CLI_FINDINGS : w->unknown ? CLI_CANNOT : CLI_OK;
}
