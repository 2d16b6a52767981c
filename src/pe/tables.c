#include <string.h>

#include "pe/image.h"

/* More than any linker writes; each is visited once. */
enum { IMPORTS_MAX = 4096, SYMBOLS_MAX = 1 << 16, NAMES_MAX = 1 << 16 };
enum { IMPORT_DESCRIPTOR = 20, DELAY_DESCRIPTOR = 32, EXPORT_DIRECTORY = 40 };

struct import_list {
    VEC(struct pe_import) items;
    const char *defect;
};

/* ------------------------------------------------------------------ imports */

static size_t thunk_size(const struct pe_image *e)
{
    return e->is64 ? 8 : 4;
}

static uint64_t thunk_at(const struct pe_image *e, const unsigned char *p)
{
    return e->is64 ? pe_u64(p) : pe_u32(p);
}

/* IMAGE_IMPORT_DESCRIPTOR: 0 names (OriginalFirstThunk), 4 stamp, 8 forwarder chain, 12 the DLL's
 * name, 16 table of functions (FirstThunk). The one without a name or a table is the last. */
static bool import_at(const struct pe_image *e, uint64_t rva, struct pe_import *ret,
                      const char **defect)
{
    const unsigned char *p = pe_at(e, rva, IMPORT_DESCRIPTOR);
    if (!p) {
        *defect = "the import table reaches behind what the file holds";
        return false;
    }
    uint32_t name = pe_u32(p + 12);
    *ret = (struct pe_import){.names_rva = pe_u32(p), .table_rva = pe_u32(p + 16)};
    if (!name || !ret->table_rva) {
        return false;
    }
    ret->dll = pe_text_at(e, name);
    if (!ret->dll) {
        *defect = "the name of an imported DLL cannot be read";
        return false;
    }
    uint32_t first = ret->names_rva ? ret->names_rva : ret->table_rva;
    const unsigned char *thunk = pe_at(e, first, thunk_size(e));
    ret->unused = thunk && thunk_at(e, thunk) == 0;
    return true;
}

/* ImgDelayDescr: 0 attributes (1: RVAs, else addresses), 4 the DLL's name, 8 handle, 12 table of
 * functions, 16 names, 20 bound table, 24 copy, 28 stamp. The one without a name is the last. */
static bool delay_import_at(const struct pe_image *e, uint64_t rva, struct pe_import *ret,
                            const char **defect)
{
    const unsigned char *p = pe_at(e, rva, DELAY_DESCRIPTOR);
    if (!p) {
        *defect = "the table of delayed imports reaches behind what the file holds";
        return false;
    }
    uint32_t base = pe_u32(p) & 1 ? 0 : (uint32_t)e->image_base;
    uint32_t name = pe_u32(p + 4);
    if (!name) {
        return false;
    }
    *ret = (struct pe_import){.delayed = true,
                              .dll = pe_text_at(e, (uint32_t)(name - base)),
                              .table_rva = pe_u32(p + 12) - base,
                              .names_rva = pe_u32(p + 16) - base};
    if (!ret->dll) {
        *defect = "the name of a delayed DLL cannot be read";
    }
    return ret->dll != NULL;
}

static void read_descriptors(struct arena *a, const struct pe_image *e, enum pe_directory which,
                             struct import_list *list)
{
    uint64_t rva = e->directories[which].rva;
    bool delayed = which == PE_DIR_DELAY_IMPORT;
    struct pe_import import;
    for (size_t n = 0; rva && n < IMPORTS_MAX; n++) {
        if (!(delayed ? delay_import_at : import_at)(e, rva, &import, &list->defect)) {
            return;
        }
        VEC_PUSH(a, &list->items, import);
        rva += delayed ? DELAY_DESCRIPTOR : IMPORT_DESCRIPTOR;
    }
    if (rva) {
        list->defect = "it has more imports than are read (4096)";
    }
}

void pe_imports_read(struct arena *a, const struct pe_image *e, struct pe_imports *ret)
{
    struct import_list list = {0};
    if (e->state == PE_STATE_OK) {
        read_descriptors(a, e, PE_DIR_IMPORT, &list);
        read_descriptors(a, e, PE_DIR_DELAY_IMPORT, &list);
    }
    *ret = (struct pe_imports){list.items.items, list.items.n, list.defect};
}

void pe_import_symbols(struct arena *a, const struct pe_image *e, const struct pe_import *import,
                       struct pe_symbols *ret)
{
    VEC(struct pe_symbol) symbols = {0};
    const char *defect = NULL;
    uint64_t rva = import->names_rva ? import->names_rva : import->table_rva;
    size_t step = thunk_size(e);
    uint64_t by_ordinal = e->is64 ? (uint64_t)1 << 63 : (uint64_t)1 << 31;
    for (size_t n = 0; !defect; n++, rva += step) {
        const unsigned char *p = pe_at(e, rva, step);
        uint64_t thunk = p ? thunk_at(e, p) : 0;
        if (!p || n == SYMBOLS_MAX) {
            defect = p ? "it imports more functions than are read (65536)"
                       : "the imported functions reach behind what the file holds";
        } else if (thunk == 0) {
            break;
        } else if (thunk & by_ordinal) {
            VEC_PUSH(a, &symbols, (struct pe_symbol){.ordinal = (uint16_t)thunk});
        } else { // IMAGE_IMPORT_BY_NAME: a hint of two bytes, then the name
            const char *name = pe_text_at(e, (thunk & 0x7fffffff) + 2);
            defect = name ? NULL : "the name of an imported function cannot be read";
            if (name) {
                VEC_PUSH(a, &symbols, (struct pe_symbol){.name = name});
            }
        }
    }
    *ret = (struct pe_symbols){symbols.items, symbols.n, defect};
}

/* ------------------------------------------------------------------ exports */

/* IMAGE_EXPORT_DIRECTORY: 16 base of ordinals, 20 number of functions, 24 of names, 28 functions,
 * 32 names, 36 the names' places among the functions. */
struct exports {
    uint32_t base, n_functions, n_names;
    const unsigned char *functions, *names, *places;
    uint32_t begin, end; // RVAs: what an entry points at in here is a forwarder
};

static enum pe_export_state find_exports(const struct pe_image *e, struct exports *ret)
{
    uint32_t rva = e->state == PE_STATE_OK ? e->directories[PE_DIR_EXPORT].rva : 0;
    const unsigned char *p = rva ? pe_at(e, rva, EXPORT_DIRECTORY) : NULL;
    if (!p) {
        return rva ? PE_EXPORT_DAMAGED : PE_EXPORT_ABSENT;
    }
    *ret = (struct exports){.base = pe_u32(p + 16),
                            .n_functions = pe_u32(p + 20),
                            .n_names = pe_u32(p + 24),
                            .begin = rva,
                            .end = rva + e->directories[PE_DIR_EXPORT].size};
    ret->functions = pe_at(e, pe_u32(p + 28), (uint64_t)ret->n_functions * 4);
    ret->names = pe_at(e, pe_u32(p + 32), (uint64_t)ret->n_names * 4);
    ret->places = pe_at(e, pe_u32(p + 36), (uint64_t)ret->n_names * 2);
    bool readable =
        (ret->functions || !ret->n_functions) && ((ret->names && ret->places) || !ret->n_names);
    return readable ? PE_EXPORT_HERE : PE_EXPORT_DAMAGED;
}

static struct pe_export function_at(const struct pe_image *e, const struct exports *x,
                                    uint32_t index)
{
    uint32_t rva = index < x->n_functions ? pe_u32(x->functions + (size_t)index * 4) : 0;
    if (rva == 0) {
        return (struct pe_export){.state = PE_EXPORT_ABSENT};
    }
    if (rva < x->begin || rva >= x->end) {
        return (struct pe_export){.state = PE_EXPORT_HERE};
    }
    const char *forwarder = pe_text_at(e, rva);
    return (struct pe_export){forwarder ? PE_EXPORT_FORWARDED : PE_EXPORT_DAMAGED, forwarder};
}

struct pe_export pe_export_find(const struct pe_image *e, const struct pe_symbol *symbol)
{
    struct exports x;
    enum pe_export_state state = find_exports(e, &x);
    if (state != PE_EXPORT_HERE) {
        return (struct pe_export){.state = state};
    }
    if (!symbol->name) {
        return symbol->ordinal >= x.base ? function_at(e, &x, symbol->ordinal - x.base)
                                         : (struct pe_export){.state = PE_EXPORT_ABSENT};
    }
    for (uint32_t low = 0, high = x.n_names; low < high;) {
        uint32_t middle = low + (high - low) / 2;
        const char *name = pe_text_at(e, pe_u32(x.names + (size_t)middle * 4));
        if (!name) {
            return (struct pe_export){.state = PE_EXPORT_DAMAGED};
        }
        int order = strcmp(name, symbol->name);
        if (order == 0) {
            return function_at(e, &x, pe_u16(x.places + (size_t)middle * 2));
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return (struct pe_export){.state = PE_EXPORT_ABSENT};
}

bool pe_exports_visit(const struct pe_image *e, bool (*visit)(const char *name, void *arg),
                      void *arg)
{
    struct exports x;
    enum pe_export_state state = find_exports(e, &x);
    if (state != PE_EXPORT_HERE) {
        return state == PE_EXPORT_ABSENT;
    }
    for (uint32_t i = 0; i < x.n_names && i < NAMES_MAX; i++) {
        const char *name = pe_text_at(e, pe_u32(x.names + (size_t)i * 4));
        if (!name) {
            return false;
        }
        if (!visit(name, arg)) {
            return true;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ load configuration */

/* A field of the load configuration; NULL: the file's is shorter, as its first word says. */
static const unsigned char *load_config_at(const struct pe_image *e, uint32_t at, uint32_t n)
{
    uint32_t rva = e->state == PE_STATE_OK ? e->directories[PE_DIR_LOAD_CONFIG].rva : 0;
    const unsigned char *p = rva ? pe_at(e, rva, at + n) : NULL;
    return p && pe_u32(p) >= at + n ? p + at : NULL;
}

uint16_t pe_dependent_load_flags(const struct pe_image *e)
{
    const unsigned char *p = load_config_at(e, e->is64 ? 78 : 54, 2); // behind CSDVersion
    return p ? pe_u16(p) : 0;
}

bool pe_is_arm64x(const struct pe_image *e)
{
    if (e->machine != PE_MACHINE_ARM64 || !e->is64) {
        return false;
    }
    const unsigned char *p = load_config_at(e, 200, 8); // CHPEMetadataPointer
    return p && pe_u64(p) != 0;
}
