#include "winldr/assembly.h"

#include <string.h>

#include "winldr/path.h"
#include "winldr/tag.h"

enum { MANIFEST_MAX = 1 << 16, ASSEMBLIES_MAX = 64, OF_PROGRAM = 1, OF_DLL = 2 };

struct assembly {
    struct str name, version, token, machine;
};

/* ------------------------------------------------------------------ texts */

static struct str manifest_file(struct winldr_process *p, const char *path)
{
    struct str text = {"", 0};
    const struct winldr_entry *e = winldr_files_get(p->files, path);
    if (e->kind != WINLDR_ENTRY_FILE || !e->place) {
        return text;
    }
    if (root_read(p->files->root, p->arena, e->place, MANIFEST_MAX, &text) < 0) {
        p->cut = arena_printf(p->arena, "%s cannot be read, or is larger than %d bytes", path,
                              MANIFEST_MAX);
        p->manifest_unseen = p->cut;
        return (struct str){"", 0};
    }
    return winldr_tag_text(p->arena, text);
}

/* RT_MANIFEST of this number. */
static struct str manifest_of(struct winldr_process *p, const struct winldr_file *file, uint32_t id)
{
    return winldr_tag_text(p->arena, pe_manifest_numbered(&file->image, id));
}

bool winldr_assembly_has(const struct winldr_module *m)
{
    return m->file && pe_manifest_numbered(&m->file->image, OF_DLL).n;
}

/* ------------------------------------------------------------------ assemblies */

static bool lists_file(struct str manifest, const char *dll)
{
    struct str tag;
    while (winldr_tag_next(&manifest, "file", &tag)) {
        if (winldr_name_part_is(winldr_tag_value(tag, "name"), str_of(dll))) {
            return true;
        }
    }
    return false;
}

/* Cuts the part up to `sep` off the front and compares it. */
static bool cut_is(struct str *rest, char sep, struct str wanted)
{
    struct str part = str_cut(rest, sep);
    return rest->s && winldr_name_part_is(part, wanted);
}

/* A number of build and revision, by which those of one release are ordered. False: a folder of
 * another assembly. */
static bool folder_is_of(const char *folder, const struct assembly *x, uint64_t *ret_build)
{
    struct str rest = str_of(folder), wanted = x->version, token = x->token;
    struct str major = str_cut(&wanted, '.'), minor = wanted.s ? str_cut(&wanted, '.') : major;
    uint64_t build = 0, revision = 0;
    bool any = str_is(x->machine, "*") || !x->machine.n;
    bool good = cut_is(&rest, '_', any ? str_of("amd64") : x->machine) &&
                cut_is(&rest, '_', x->name) &&
                cut_is(&rest, '_', token.n ? token : str_of("none")) && cut_is(&rest, '.', major) &&
                cut_is(&rest, '.', minor) && str_u64(str_cut(&rest, '.'), &build) && rest.s &&
                str_u64(str_cut(&rest, '_'), &revision);
    *ret_build = build << 32 | (revision & UINT32_MAX);
    return good;
}

/* The folder of the assembly in WinSxS, or NULL. */
static const char *system_folder(struct winldr_process *p, const struct assembly *x)
{
    const char *top = winldr_path_join(p->arena, p->config.windows, "WinSxS"), *found = NULL;
    struct winldr_names names = winldr_files_list(p->files, top);
    uint64_t newest = 0, build = 0;
    for (size_t i = 0; i < names.n; i++) {
        if (folder_is_of(names.items[i], x, &build) && (!found || build >= newest)) {
            found = winldr_path_join(p->arena, top, names.items[i]);
            newest = build;
        }
    }
    return found;
}

/* Why Windows may refuse the manifest of a private assembly that x asks for, or NULL. */
static const char *private_doubt(struct str manifest, const struct assembly *x)
{
    const char *doubt = winldr_tag_doubt(manifest);
    struct str tag, rest = manifest;
    if (doubt) {
        return doubt;
    }
    if (winldr_tag_next(&rest, "assemblyIdentity", &tag) &&
        (!winldr_name_part_is(winldr_tag_value(tag, "name"), x->name) ||
         !str_eq(winldr_tag_value(tag, "version"), x->version) ||
         !winldr_name_part_is(winldr_tag_value(tag, "publicKeyToken"), x->token))) {
        return "an identity that is not the one asked for";
    }
    while (winldr_tag_next(&manifest, "dependentAssembly", &tag)) {
        rest = manifest;
        if (winldr_tag_next(&rest, "assemblyIdentity", &tag) &&
            !str_starts(winldr_tag_value(tag, "name"), "Microsoft.Windows.")) {
            return "a further assembly that it needs";
        }
    }
    return NULL;
}

/* Beside the file with the manifest. True: the assembly is there; ret->path: its DLL, or NULL. */
static bool find_private(struct winldr_process *p, const char *beside, const struct assembly *x,
                         const char *dll, struct winldr_redirect *ret)
{
    const char *name = str_dup(p->arena, x->name);
    const char *const folders[] = {beside, winldr_path_join(p->arena, beside, name)};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *base = winldr_path_join(p->arena, folders[i], name);
        const struct winldr_entry *e =
            winldr_files_get(p->files, str_concat(p->arena, base, ".dll", ""));
        struct str text = e->kind == WINLDR_ENTRY_FILE ? manifest_of(p, e->file, OF_PROGRAM)
                                                       : (struct str){"", 0};
        text = text.n ? text : manifest_file(p, str_concat(p->arena, base, ".manifest", ""));
        if (p->manifest_unseen) {
            return false;
        }
        if (text.n) {
            ret->path = lists_file(text, dll) ? winldr_path_join(p->arena, folders[i], dll) : NULL;
            ret->doubt = ret->doubt ? ret->doubt : private_doubt(text, x);
            return true;
        }
    }
    return false;
}

struct winldr_redirect winldr_assembly_find(struct winldr_process *p, const struct winldr_module *m,
                                            const char *name)
{
    struct winldr_redirect answer = {.unseen = p->manifest_unseen};
    struct str text =
        m == p->modules.items[0] ? p->program_manifest : manifest_of(p, m->file, OF_DLL);
    struct str tag;
    const char *beside = winldr_path_folder(p->arena, m->path), *doubt = winldr_tag_doubt(text);
    for (size_t i = 0; winldr_tag_next(&text, "dependentAssembly", &tag); i++) {
        struct str rest = text;
        if (i == ASSEMBLIES_MAX) {
            // One of them may have any DLL, also one that is found elsewhere.
            answer.unseen =
                arena_printf(p->arena, "the manifest of %s names more than %d assemblies", m->path,
                             ASSEMBLIES_MAX);
            p->cut = p->cut ? p->cut : answer.unseen;
            break;
        }
        if (!winldr_tag_next(&rest, "assemblyIdentity", &tag)) {
            break;
        }
        struct assembly x = {winldr_tag_value(tag, "name"), winldr_tag_value(tag, "version"),
                             winldr_tag_value(tag, "publicKeyToken"),
                             winldr_tag_value(tag, "processorArchitecture")};
        const char *folder = x.name.n ? system_folder(p, &x) : NULL;
        const char *path = folder ? winldr_path_join(p->arena, folder, name) : NULL;
        if (path && winldr_files_get(p->files, path)->kind == WINLDR_ENTRY_FILE) {
            return (struct winldr_redirect){path, NULL, doubt};
        }
        if (folder || !x.name.n) {
            continue;
        }
        struct winldr_redirect private = {.doubt = doubt};
        if (find_private(p, beside, &x, name, &private)) {
            if (private.path) {
                return private;
            }
        } else if (!str_starts(x.name, "Microsoft.Windows.")) { // comctl32.dll and gdiplus.dll
            answer.unseen = arena_printf(p->arena, "the assembly " STR_FMT, STR_ARG(x.name));
        }
    }
    if (p->manifest_unseen) { // it may have named any DLL
        return (struct winldr_redirect){name, NULL, "more text than is read"};
    }
    return answer;
}

/* ------------------------------------------------------------------ the program */

void winldr_assembly_start(struct winldr_process *p)
{
    const struct winldr_module *program = p->modules.items[0];
    const char *local = str_concat(p->arena, program->path, ".local", "");
    enum winldr_entry_kind kind = winldr_files_get(p->files, local)->kind;
    p->program_manifest =
        program->file ? manifest_of(p, program->file, OF_PROGRAM) : (struct str){"", 0};
    if (!p->program_manifest.n) {
        const char *beside = str_concat(p->arena, program->path, ".manifest", "");
        p->program_manifest = manifest_file(p, beside);
    }
    if (!p->program_manifest.n && kind == WINLDR_ENTRY_FILE) {
        p->local_folder = winldr_path_folder(p->arena, program->path);
    } else if (!p->program_manifest.n && kind == WINLDR_ENTRY_FOLDER) {
        p->local_folder = local;
    }
}

const char *winldr_local_file(struct winldr_process *p, const char *name)
{
    const char *path = p->local_folder
                           ? winldr_path_join(p->arena, p->local_folder, winldr_path_base(name))
                           : NULL;
    return path && winldr_files_get(p->files, path)->kind == WINLDR_ENTRY_FILE ? path : NULL;
}
