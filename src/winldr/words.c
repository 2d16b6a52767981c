#include "winldr/words.h"

#include <string.h>

#include "base/str.h"
#include "winldr/path.h"

const char *winldr_error_text(struct arena *a, enum winldr_code code)
{
    return arena_printf(a, "[WinError %d] %s", (int)code, winldr_code_text(code));
}

const char *winldr_request_text(const struct winldr_process *p, const struct winldr_request *r)
{
    if (!r->importer) {
        return r->name;
    }
    return arena_printf(p->arena,
                        r->is_forwarded ? "%s, to which %s forwards a function,"
                                        : "%s, which %s imports,",
                        r->name, r->importer->path);
}

/* The other DLLs of a load that the same unseen place leaves open, each by its name once: "; so do
 * b.dll and c.dll". Any of them may be the one that is missing. */
static const char *also_unseen(const struct winldr_process *p, const struct winldr_load *load)
{
    enum { SHOWN = 8 };
    struct arena *a = p->arena;
    const struct winldr_request *first = p->requests.items[load->blame];
    const char *names[SHOWN];
    const char *list = "";
    size_t n = 0, more = 0;
    for (size_t i = load->blame + 1; i < load->end; i++) {
        const struct winldr_request *r = p->requests.items[i];
        bool is_new = r->outcome == WINLDR_UNKNOWN && r->unseen &&
                      strcmp(r->unseen, first->unseen) == 0 &&
                      !winldr_name_is(r->name, first->name);
        for (size_t k = 0; is_new && k < n; k++) {
            is_new = !winldr_name_is(r->name, names[k]);
        }
        if (is_new && n < SHOWN) {
            names[n++] = r->name;
        } else {
            more += is_new;
        }
    }
    for (size_t k = 0; k < n; k++) {
        const char *before = k == 0 ? "" : k + 1 == n && !more ? " and " : ", ";
        list = str_concat(a, list, before, names[k]);
    }
    if (more) {
        list = arena_printf(a, "%s and %zu more", list, more);
    }
    return n == 0 ? "" : arena_printf(a, "; so do%s %s", n == 1 && !more ? "es" : "", list);
}

const char *winldr_load_cause(const struct winldr_process *p, const struct winldr_load *load)
{
    struct arena *a = p->arena;
    const struct winldr_request *r = p->requests.items[load->blame];
    const char *name = winldr_request_text(p, r);
    if (r->outcome == WINLDR_UNKNOWN) {
        return arena_printf(a, "%s depends on what was not looked at: %s%s", name, r->unseen,
                            also_unseen(p, load));
    }
    switch (load->code) {
    case WINLDR_MOD_NOT_FOUND: return arena_printf(a, "%s was not found", name);
    case WINLDR_PROC_NOT_FOUND:
        if (r->forwarder) {
            return arena_printf(
                a, "%s forwards %s, which %s imports, to %s, which %s does not export", r->name,
                r->symbol, r->importer ? r->importer->path : "the program", r->forwarder, r->path);
        }
        return arena_printf(a, "%s is not exported by %s, which %s got as %s", r->symbol, r->path,
                            r->importer ? r->importer->path : "the program", r->name);
    case WINLDR_BAD_EXE_FORMAT:
        return arena_printf(a, "%s was found as %s, which is not a DLL for this process", name,
                            r->path);
    case WINLDR_ACCESS_DENIED:
        return arena_printf(a, "%s was found as %s, which cannot be opened", name, r->path);
    case WINLDR_INVALID_PARAMETER:
        return arena_printf(a, "flags 0x%x contradict each other, or need a full path",
                            load->flags);
    case WINLDR_DLL_INIT_FAILED: return "the start of a DLL says no";
    case WINLDR_OK: break;
    }
    return name;
}
