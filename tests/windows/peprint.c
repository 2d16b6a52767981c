/* Prints what src/pe reads of each PE file that is named, one fact a line, for tests/windows/pe.py.
 */
#include <stdio.h>
#include <sys/mman.h>

#include "base/root.h"
#include "pe/image.h"

static bool print_export(const char *name, void *arg)
{
    const struct pe_image *e = arg;
    struct pe_export x = pe_export_find(e, &(struct pe_symbol){.name = name});
    if (x.state == PE_EXPORT_FORWARDED) {
        printf("export %s -> %s\n", name, x.forwarder);
    } else {
        printf("export %s%s\n", name, x.state == PE_EXPORT_HERE ? "" : " NOT FOUND");
    }
    return true;
}

static void print_imports(struct arena *a, const struct pe_image *e)
{
    struct pe_imports imports;
    pe_imports_read(a, e, &imports);
    if (imports.defect) {
        printf("defect %s\n", imports.defect);
    }
    for (size_t i = 0; i < imports.n; i++) {
        const struct pe_import *import = &imports.items[i];
        struct pe_symbols symbols;
        pe_import_symbols(a, e, import, &symbols);
        if (symbols.defect) {
            printf("defect %s\n", symbols.defect);
        }
        const char *how = import->delayed ? "delay" : "import";
        printf("%s %s\n", how, import->dll);
        for (size_t k = 0; k < symbols.n; k++) {
            const struct pe_symbol *s = &symbols.items[k];
            if (s->name) {
                printf("%s %s %s\n", how, import->dll, s->name);
            } else {
                printf("%s %s #%u\n", how, import->dll, s->ordinal);
            }
        }
    }
}

static void print_image(struct arena *a, const struct pe_image *e)
{
    printf("state %d cut %d machine %s\n", (int)e->state, e->cut, pe_machine_name(a, e->machine));
    print_imports(a, e);
    if (!pe_exports_visit(e, print_export, (void *)(uintptr_t)e)) {
        puts("defect exports");
    }
    if (pe_dependent_load_flags(e)) {
        printf("load flags 0x%x\n", pe_dependent_load_flags(e));
    }
    struct pe_version v = pe_version_read(e);
    if (v.found) {
        printf("version %u.%u.%u.%u\n", v.file[0], v.file[1], v.file[2], v.file[3]);
    }
    const char *text = pe_version_text(a, e, "ProductVersion");
    if (text) {
        printf("product %s\n", text);
    }
    if (pe_manifest(e).n) {
        printf("manifest %zu\n", pe_manifest(e).n);
    }
}

int main(int argc, char **argv)
{
    struct gm_err err;
    struct root root = ROOT_EMPTY;
    if (root_open(&root, "/", &err) < 0) {
        return 3;
    }
    for (int i = 1; i < argc; i++) {
        const void *data = NULL;
        size_t size = 0;
        struct stat st;
        struct arena arena;
        arena_init(&arena, 0, NULL, NULL);
        printf("file %s\n", argv[i]);
        if (root_map(&root, argv[i], &data, &size, &st) == 0) {
            struct pe_image e;
            pe_image_parse(&arena, data, size, &e);
            print_image(&arena, &e);
            (void)munmap((void *)(uintptr_t)data, size);
        }
        arena_release(&arena);
    }
    root_close(&root);
    return 0;
}
