#include "watch/fit.h"

#include "base/str.h"
#include "ldso/cpu.h"
#include "ldso/store.h"

static const char *image_objection(struct arena *a, const struct elf_image *e)
{
    if (e->state != ELF_STATE_OK) {
        return NULL;
    }
    if (!e->is64) {
        return "a 32-bit program";
    }
    if (e->machine != ldso_cpu_own_machine()) {
        return arena_printf(a, "a program for %s", elf_machine_name(a, e->machine));
    }
    if (!e->interp) { // the loader itself has a name, and may be what is started
        return e->soname ? NULL : "a statically linked program";
    }
    return starts_with(path_base(e->interp), "ld-musl-") ? "a musl program" : NULL;
}

const char *watch_unfit(struct root *r, struct arena *a, const char *path)
{
    struct ldso_store store;
    ldso_store_open(&store, r, a);
    const struct ldso_entry *entry = ldso_store_get(&store, path);
    const char *why = entry->file ? image_objection(a, &entry->file->image) : NULL;
    ldso_store_close(&store);
    return why;
}
