/* One program or library as target: its closure, its dlopen notes, the rows of what its objects
 * open, and names that stand in its constants (guesses). */
#include <jansson.h>
#include <string.h>

#include "base/json.h"
#include "model/model.h"

enum {
    NOTES_MAX = 256, // entries of a note
    NOTE_NAMES_MAX = 64,
    NOTE_BYTES_MAX = 1 << 20,
    GUESSES_MAX = 512,
    NAME_MAX_BYTES = 128
};

struct note_list {
    struct model *m;
    struct model_process *out;
    struct ldso_object *caller;
};

/* What else the notes name is not judged, so that the program cannot be called fine. */
static void notes_are_cut(struct model *m, struct model_process *out, const char *says)
{
    if (!out->unsure) {
        VEC_PUSH(m->arena, &out->unknown, says);
    }
    out->unsure = true;
}

static void try_names(struct model *m, struct model_process *out, struct model_attempt at)
{
    struct ldso_process *p = out->ldso;
    at.first_load = p->loads.n;
    at.failed = true;
    for (size_t i = 0; i < at.n_names && at.failed; i++) {
        const struct ldso_load *load = ldso_dlopen(p, at.caller, at.names[i], LDSO_NOW);
        if (!load) {
            break; // the process is dead, or its model has ended
        }
        at.n_loads++;
        at.failed = load->object == NULL;
    }
    if (p->limit) {
        return; // it has not failed
    }
    VEC_PUSH(m->arena, &out->attempts, at);
}

/* One entry of the note's array: {"feature", "description", "priority", "soname": [...]}; the
 * priority is "recommended" unless stated (UAPI group, ELF package metadata, dlopen notes). */
static void note_entry(struct note_list *list, const json_t *entry)
{
    struct arena *a = list->m->arena;
    const json_t *sonames = json_object_get(entry, "soname");
    const char *priority = json_text(entry, "priority");
    const char *feature = json_text(entry, "feature");
    size_t n = json_array_size(sonames);
    if (n > NOTE_NAMES_MAX) {
        notes_are_cut(list->m, list->out,
                      arena_printf(a, "%s: a dlopen note names more than %d libraries at once",
                                   list->caller->path, NOTE_NAMES_MAX));
    }
    if (n == 0 || n > NOTE_NAMES_MAX) {
        return;
    }
    const char **names = arena_array(a, n, sizeof *names);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(sonames, i));
        if (name && *name) {
            names[kept++] = arena_strdup(a, name);
        }
    }
    if (kept) {
        try_names(
            list->m, list->out,
            (struct model_attempt){.source = MODEL_FROM_NOTE,
                                   .phase = MODEL_USE,
                                   .caller = list->caller,
                                   .names = names,
                                   .n_names = kept,
                                   .required = priority && strcmp(priority, "required") == 0,
                                   .recommended = !priority || strcmp(priority, "recommended") == 0,
                                   .feature = feature ? arena_strdup(a, feature) : NULL});
    }
}

static void visit_note(const struct elf_note *note, void *arg)
{
    struct note_list *list = arg;
    if (note->type != 0x407c0c0a || !str_is(note->owner, "FDO")) {
        return;
    }
    if (note->desc.n > NOTE_BYTES_MAX) {
        notes_are_cut(list->m, list->out,
                      arena_printf(list->m->arena, "%s: a dlopen note has more than %d bytes",
                                   list->caller->path, NOTE_BYTES_MAX));
        return;
    }
    size_t n = str_find_char(note->desc, '\0'); // the text may be padded with NULs
    json_t *array = json_loadb(note->desc.s, n, 0, NULL);
    for (size_t i = 0; i < json_array_size(array) && i < NOTES_MAX; i++) {
        note_entry(list, json_array_get(array, i));
    }
    if (json_array_size(array) > NOTES_MAX) {
        notes_are_cut(list->m, list->out,
                      arena_printf(list->m->arena, "%s: a dlopen note has more than %d entries",
                                   list->caller->path, NOTES_MAX));
    }
    json_decref(array);
}

static void read_notes(struct model *m, struct model_process *out)
{
    for (size_t i = 0; i < out->ldso->objects.n; i++) {
        struct note_list list = {m, out, out->ldso->objects.items[i]};
        if (!elf_notes(&list.caller->file->image, visit_note, &list)) {
            notes_are_cut(
                m, out,
                arena_printf(m->arena, "%s has more notes than are read", list.caller->path));
        }
    }
}

static bool file_is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_-+.", c));
}

/* "lib...so" with an optional version, NUL-bounded: what a dlopen call may be given. */
static bool is_library_text(struct str s)
{
    size_t so = str_find(s, ".so");
    if (!str_starts(s, "lib") || s.n < 7 || s.n > NAME_MAX_BYTES || so == s.n ||
        (s.n > so + 3 && s.s[so + 3] != '.')) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (!file_is_name_char(s.s[i])) {
            return false;
        }
    }
    return true;
}

static bool name_is_needed(const struct elf_image *e, struct str name)
{
    if (e->soname && str_is(name, e->soname)) {
        return true;
    }
    for (size_t i = 0; i < e->n_needs; i++) {
        if (str_is(name, e->needs[i].name)) {
            return true;
        }
    }
    return false;
}

static void process_guess(struct model *m, struct model_process *out, struct str name)
{
    for (size_t i = 0; i < out->attempts.n; i++) {
        const struct model_attempt *at = &out->attempts.items[i];
        for (size_t k = 0; k < at->n_names; k++) {
            if (str_is(name, at->names[k])) {
                return;
            }
        }
    }
    const char **names = arena_array(m->arena, 1, sizeof *names);
    names[0] = str_dup(m->arena, name);
    try_names(m, out,
              (struct model_attempt){.source = MODEL_FROM_GUESS,
                                     .phase = MODEL_USE,
                                     .caller = out->ldso->main,
                                     .names = names,
                                     .n_names = 1});
}

/* Constants of the target itself: read-only segments, at most 64 MiB of them. */
static void read_guesses(struct model *m, struct model_process *out)
{
    const struct elf_image *e = &out->ldso->main->file->image;
    size_t budget = 64 << 20, found = 0;
    for (size_t i = 0; i < e->n_segments; i++) {
        const struct elf_segment *s = &e->segments[i];
        const unsigned char *p = elf_bytes(e, s->offset, s->filesz);
        if (s->type != PT_LOAD || s->flags & PF_W || !p || s->filesz > budget) {
            continue;
        }
        budget -= s->filesz;
        struct str rest = {(const char *)p, s->filesz};
        for (size_t at; (at = str_find(rest, "lib")) < rest.n && found < GUESSES_MAX;) {
            struct str text = {rest.s + at, rest.n - at};
            bool bounded = rest.s + at == (const char *)p || rest.s[at - 1] == '\0';
            text.n = str_find_char(text, '\0');
            if (bounded && is_library_text(text) && !name_is_needed(e, text)) {
                process_guess(m, out, text);
                found++;
            }
            rest = (struct str){rest.s + at + 3, rest.n - at - 3};
        }
    }
    if (found == GUESSES_MAX) {
        VEC_PUSH(m->arena, &m->notes,
                 arena_printf(m->arena,
                              "%s has more than %d names of libraries as text; the others were not "
                              "looked up",
                              out->ldso->main->path, GUESSES_MAX));
    }
}

/* ------------------------------------------------------------------ frozen programs */

static bool has_constant(const struct elf_image *e, const char *text, size_t n)
{
    bool found = false;
    for (size_t i = 0; i < e->n_segments && !found; i++) {
        const struct elf_segment *s = &e->segments[i];
        const unsigned char *p = elf_bytes(e, s->offset, s->filesz);
        found = s->type == PT_LOAD && !(s->flags & PF_W) && p && memmem(p, s->filesz, text, n);
    }
    return found;
}

/* Who has frozen a Python and its packages into the program; NULL: nobody that is known. All
 * bootloaders of PyInstaller set sys._MEIPASS and name base_library.zip (bootloader/src/
 * pyi_pythonlib.c, pyi_launch.c); cx_Freeze puts lib/library.zip beside the program. */
static const char *freezer_of(struct model *m, const struct ldso_object *program)
{
    static const char attribute[] = "\0_MEIPASS", library[] = "base_library.zip";
    const struct elf_image *e = &program->file->image;
    char *real = NULL;
    struct stat st;
    if (!e->interp || root_realpath(m->root, m->arena, program->path, &real) < 0) {
        return NULL;
    }
    const char *zip = path_join(m->arena, path_dir(m->arena, real), "lib/library.zip");
    return has_constant(e, attribute, sizeof attribute) && has_constant(e, library, sizeof library)
               ? "PyInstaller"
           : root_stat(m->root, zip, &st) == 0 ? "cx_Freeze"
                                               : NULL;
}

static void note_frozen(struct model *m, struct model_process *out)
{
    const struct ldso_object *program = out->ldso->main;
    const char *by = freezer_of(m, program);
    if (by && !out->unsure) {
        VEC_PUSH(m->arena, &out->unknown,
                 arena_printf(m->arena,
                              "%s was frozen by %s: what the Python packages in it load was not "
                              "looked at",
                              path_base(program->path), by));
        out->unsure = true;
    }
}

void model_run_file(struct model *m, struct model_process *out, const struct ldso_config *config)
{
    struct gm_err err;
    struct ldso_process *p = ldso_process_new(m->store, m->arena, config);
    if (ldso_start(p, m->target_file, &err) < 0) {
        out->error = arena_strdup(m->arena, err.text);
        return;
    }
    out->ldso = p;
    if (!p->is_static && !p->start_failed) {
        model_preload(m, out, p->main);
        read_notes(m, out);
        model_run_object_rows(m, out);
        read_guesses(m, out);
        note_frozen(m, out);
    }
    model_settle(out);
}

struct model_process *model_add_file(struct model *m)
{
    struct model_process *out = arena_alloc(m->arena, sizeof *out);
    VEC_PUSH(m->arena, &m->processes, out);
    model_run_file(m, out, &m->config);
    return out;
}
