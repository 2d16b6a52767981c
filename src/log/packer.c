/* For the build: reads a folder of failures, checks it, and writes it as the built-in rule base.
 *
 *   packer OUT.c DEPFILE FOLDER */
#include <stdio.h>
#include <string.h>

#include "kb/failures.h"
#include "log/internal.h"
#include "log/pack.h"

/* No rules are built in here. */
const char log_packed[] = "";
const size_t log_packed_size = 0;

/* What run time does not need. */
static const char *const left_out[] = {"date", "evidence", "examples", "near_misses",
                                       "note", "source",   "sources",  NULL};

static void bytes_write(FILE *out, struct str bytes)
{
    for (size_t i = 0; i < bytes.n; i++) {
        (void)fprintf(out, "%d,%s", bytes.s[i], i % 20 == 19 ? "\n" : "");
    }
}

static int base_write(struct arena *a, const char *path, const struct node_files *files)
{
    FILE *out = fopen(path, "we");
    size_t n = 0;
    if (!out) {
        return -1;
    }
    (void)fputs("/* Written by src/log/packer.c. */\n#include \"log/pack.h\"\n\n"
                "const char log_packed[] = {\n",
                out);
    for (size_t i = 0; i < files->n; i++) {
        struct str bytes = node_pack(a, &files->items[i].root, left_out);
        bytes_write(out, bytes);
        n += bytes.n;
    }
    (void)fprintf(out, "};\nconst size_t log_packed_size = %zu;\n", n);
    bool failed = ferror(out);
    return fclose(out) == 0 && !failed ? 0 : -1;
}

/* As scripts/depfile.py does. */
static void path_write(FILE *out, const char *path)
{
    for (; *path; path++) {
        const char *before = *path == ' ' || *path == '#' ? "\\" : *path == '$' ? "$" : "";
        (void)fprintf(out, "%s%c", before, *path);
    }
}

/* The folder too: a file that is added or removed changes it. */
static int depfile_write(const char *path, const char *out_path, const char *folder,
                         const struct node_files *files)
{
    FILE *out = fopen(path, "we");
    if (!out) {
        return -1;
    }
    path_write(out, out_path);
    (void)fputs(": ", out);
    path_write(out, folder);
    for (size_t i = 0; i < files->n; i++) {
        (void)fputc(' ', out);
        path_write(out, files->items[i].name);
    }
    (void)fputc('\n', out);
    bool failed = ferror(out);
    return fclose(out) == 0 && !failed ? 0 : -1;
}

static int rules_pack(struct arena *a, struct root *root, char **argv, struct gm_err *err)
{
    struct kb kb;
    struct node_files files;
    struct log_rules *rules = NULL;
    int rc = kb_open(&kb, a, root, NULL, err);
    rc = rc < 0 ? rc : kb_failures_read(root, a, argv[3], &files, err);
    rc = rc < 0 ? rc : log_rules_of(&kb, a, &(struct log_sources){.files = &files}, &rules, err);
    log_rules_close(rules);
    if (rc == 0 && (base_write(a, argv[1], &files) < 0 ||
                    depfile_write(argv[2], argv[1], argv[3], &files) < 0)) {
        rc = gm_err_set(err, GM_ERR_LOOK, "cannot write %s", argv[1]);
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct arena a;
    struct root root = ROOT_EMPTY;
    struct gm_err err;
    if (argc != 4) {
        (void)fputs("packer OUT.c DEPFILE FOLDER\n", stderr);
        return 2;
    }
    arena_init(&a, 0, NULL, NULL);
    int rc = root_open(&root, "/", &err);
    rc = rc < 0 ? rc : rules_pack(&a, &root, argv, &err);
    if (rc < 0) {
        (void)fprintf(stderr, "%s\n", err.text);
    }
    root_close(&root);
    arena_release(&a);
    return rc < 0;
}
