/* Undefined symbols, found in the scopes of an object. glibc elf/dl-lookup.c. */
#include <string.h>

#include "ldso/internal.h"

/* ------------------------------------------------------------------ symbols */

struct reference {
    const char *version; // NULL: none
    const char *file;    // Verneed's file, NULL for an own definition
    uint32_t hash;
    struct ldso_object *named; // who answers to the file's name, or NULL
    uint16_t index_there; // of the version among the definitions of `named`; 0: not defined there
};

/* The versions an object asks for, by their index in its version table. */
struct references {
    struct reference *items;
    bool *settled; // a numbered version that its library defines: see need_is_settled()
    uint32_t n, cap;
};

/*
 * The symbols of a numbered version of glibc (GLIBC_2.17) never change once it is released: glibc's
 * own build compares them with its abilist files. GCC promises the same of libstdc++ and libgcc
 * (its manual's "ABI Policy and Guidelines", checked against baseline_symbols.txt). So where such a
 * library defines the version it has the symbol, and most symbols of a process need no lookup.
 * GLIBC_PRIVATE has no such promise.
 */
static bool need_is_settled(const struct elf_version_need *need, const struct ldso_object *named)
{
    static const struct {
        const char *soname, *versions;
    } settled[] = {
        {"libc.so.6", "GLIBC_2."},       {"libm.so.6", "GLIBC_2."},
        {"libpthread.so.0", "GLIBC_2."}, {"libdl.so.2", "GLIBC_2."},
        {"librt.so.1", "GLIBC_2."},      {"libstdc++.so.6", "GLIBCXX_3.4"},
        {"libstdc++.so.6", "CXXABI_1."}, {"libgcc_s.so.1", "GCC_"},
    };
    for (size_t i = 0; i < sizeof settled / sizeof *settled && named->soname; i++) {
        if (starts_with(need->name, settled[i].versions) &&
            strcmp(named->soname, settled[i].soname) == 0) {
            return true;
        }
    }
    return false;
}

/* Fills in those of the object; *r is zeroed, or holds another's, whose place they take. */
static void read_references(struct ldso_process *p, struct ldso_object *o, struct references *r)
{
    const struct elf_versions *v = ldso_file_versions(p->store, o->file);
    r->n = 0;
    for (size_t i = 0; i < v->n_needs; i++) {
        r->n = v->needs[i].index >= r->n ? v->needs[i].index + 1u : r->n;
    }
    if (r->n > r->cap) {
        r->cap = r->n * 2;
        r->items = arena_array(p->arena, r->cap, sizeof *r->items);
        r->settled = arena_array(p->arena, r->cap, sizeof *r->settled);
    } else if (r->n) {
        memset(r->items, 0, r->n * sizeof *r->items);
        memset(r->settled, 0, r->n * sizeof *r->settled);
    }
    if (!o->version_from) {
        ldso_find_providers(p, o, v);
    }
    for (size_t i = 0; i < v->n_needs; i++) {
        const struct elf_version_need *need = &v->needs[i];
        const struct ldso_version_from *from = &o->version_from[i];
        /* The base version's name does not serve (dl-version.c). */
        uint16_t index = from->definition && !(from->definition->flags & VER_FLG_BASE)
                             ? from->definition->index
                             : 0;
        r->items[need->index] =
            (struct reference){need->name, need->file, need->hash, from->object, index};
        r->settled[need->index] = need->index >= 2 && index && need_is_settled(need, from->object);
    }
}

/* What one symbol asks for. */
struct wanted {
    const struct reference *version; // never NULL; one without a name: no version
    bool hidden;
};

static struct wanted reference_version(const struct references *r, uint16_t versym)
{
    static const struct reference none = {0};
    uint16_t index = versym & 0x7fff;
    if (versym == 0xffff || index < 2 || index >= r->n) {
        return (struct wanted){&none, false};
    }
    return (struct wanted){&r->items[index], versym >> 15};
}

struct match {
    struct ldso_process *p;
    struct ldso_object *object;
    struct wanted want;
    bool versioned;    // the object has a version table
    unsigned n_hidden; // candidates whose version was not asked for
};

/* The base version's name does not serve (dl-version.c). */
static bool is_def_of(const struct elf_version_def *d, uint16_t index)
{
    return d->index == index && !(d->flags & VER_FLG_BASE);
}

static const struct elf_version_def *def_at(const struct elf_versions *v, uint16_t index)
{
    /* Linkers write them in the order of their indices, from 1. */
    if (index && index <= v->n_defs && is_def_of(&v->defs[index - 1], index)) {
        return &v->defs[index - 1];
    }
    for (size_t i = 0; i < v->n_defs; i++) {
        if (is_def_of(&v->defs[i], index)) {
            return &v->defs[i];
        }
    }
    return NULL;
}

/* check_match() of dl-lookup.c */
static bool is_match(const struct elf_symbol *sym, void *arg)
{
    struct match *m = arg;
    enum { // four bits each in the file
        TYPES = 1 << STT_NOTYPE | 1 << STT_OBJECT | 1 << STT_FUNC | 1 << STT_COMMON | 1 << STT_TLS |
                1 << STT_GNU_IFUNC,
        BINDS = 1 << STB_GLOBAL | 1 << STB_WEAK | 1 << STB_GNU_UNIQUE,
    };
    bool typed = TYPES >> sym->type & 1, bound = BINDS >> sym->bind & 1;
    bool has_value = sym->value || sym->shndx == SHN_ABS || sym->type == STT_TLS;
    bool is_local = sym->visibility == STV_HIDDEN || sym->visibility == STV_INTERNAL;
    if (sym->shndx == SHN_UNDEF || !has_value || !typed || !bound || is_local) {
        return false;
    }
    if (!m->versioned || sym->versym == 0xffff) {
        return true;
    }
    uint16_t index = sym->versym & 0x7fff;
    bool hidden = sym->versym >> 15;
    if (index >= 2 && index == m->want.version->index_there &&
        m->object == m->want.version->named) {
        return true;
    }
    if (!m->want.version->version) {
        if (index >= 3) {
            m->n_hidden += !hidden;
            return false;
        }
        return true;
    }
    const struct elf_version_def *def =
        def_at(ldso_file_versions(m->p->store, m->object->file), index);
    if (def && def->hash == m->want.version->hash &&
        strcmp(def->name, m->want.version->version) == 0) {
        return true;
    }
    /* An unversioned definition (index 0 or 1, not hidden) serves a reference that is not hidden.
     */
    return !(m->want.hidden || def || hidden);
}

enum lookup { LOOKUP_FOUND, LOOKUP_MISSING, LOOKUP_BUG };

static enum lookup lookup_in(struct ldso_process *p, struct ldso_object *o,
                             const struct elf_lookup_key *key, struct wanted want)
{
    struct match m = {p, o, want, o->file->image.versym != 0, 0};
    if (elf_symbol_find(&o->file->image, key, is_match, &m) || m.n_hidden == 1) {
        return LOOKUP_FOUND;
    }
    /* "If this current map is the one mentioned in the verneed entry and we have not found a weak
     * entry, it is a bug." (do_lookup_x) */
    const char *file = want.version->file;
    return p->glibc_minor < 30 && file && ldso_has_name(o, file) ? LOOKUP_BUG : LOOKUP_MISSING;
}

struct scope {
    struct ldso_object *const *items;
    size_t n;
};

/* Where symbols are looked up: the global scope, then that of what is being loaded. */
struct scopes {
    struct scope items[2];
    size_t n;
    unsigned mark; // of the files in them
};

/* Who defined the symbols before this one, the last first, then what the object depends on: most
 * symbols come from few of these. Only what is in the scope stands here. */
struct recent {
    struct ldso_object *items[12];
    size_t n;
};

enum { RECENT = sizeof((struct recent *)0)->items / sizeof(struct ldso_object *) };

static void remember_recent(struct recent *r, struct ldso_object *o)
{
    size_t i = 0;
    while (i < r->n && r->items[i] != o) {
        i++;
    }
    if (i == r->n) {
        r->n += r->n < RECENT;
        i = r->n - 1;
    }
    memmove(&r->items[1], &r->items[0], i * sizeof r->items[0]);
    r->items[0] = o;
}

struct missing {
    uint32_t index;
    enum lookup how;
};

typedef VEC(struct missing) missing_list;

/*
 * The lookups of one object's symbols, some dozen at a time (struct elf_lookup).
 *
 * Only whether a symbol is found at all matters. The library that the reference names, or for a
 * reference without version those that served the symbols before it, are asked first: if one of
 * them is in the scope and defines the symbol, no other library's answer can make the lookup fail.
 */
enum { AT_ONCE = 48 };

struct search {
    struct ldso_process *p;
    struct ldso_object *object;
    const struct scopes *in;
    const struct references *references;
    unsigned seen; // mark of the files in the object's served_by
    struct recent recent;
    missing_list missing;
    struct asked {
        struct ldso_object *first; // whom to ask first, or NULL
        struct wanted want;
    } asked[AT_ONCE];
    struct elf_lookup lookups[AT_ONCE];
};

/* Who defines symbol `index`. */
static void note_provider(struct search *s, uint32_t index, struct ldso_file *provider)
{
    struct ldso_file *f = s->object->file;
    if (f->providers) {
        f->providers[index] = provider;
    }
    if (provider->seen != s->seen) {
        provider->seen = s->seen;
        VEC_PUSH(s->p->store->arena, &f->served_by, provider);
    }
}

/* Where the object that was asked first does not define the symbol: in the others of the recent
 * ones, then in full, as the loader does it. */
static enum lookup look_up(struct search *s, const struct elf_lookup_key *key,
                           const struct asked *asked, struct ldso_object **ret)
{
    struct wanted want = asked->want;
    for (size_t i = 0; i < s->recent.n && !want.version->version; i++) {
        *ret = s->recent.items[i];
        if (*ret != asked->first && lookup_in(s->p, *ret, key, want) == LOOKUP_FOUND) {
            return LOOKUP_FOUND;
        }
    }
    for (size_t i = 0; i < s->in->n; i++) {
        for (size_t k = 0; k < s->in->items[i].n; k++) {
            *ret = s->in->items[i].items[k];
            enum lookup found = lookup_in(s->p, *ret, key, want);
            if (found != LOOKUP_MISSING) {
                return found;
            }
        }
    }
    return LOOKUP_MISSING;
}

/* Begins the lookup in the object that is asked first; NULL: there is none. */
static struct ldso_object *ask_first(const struct search *s, const struct reference *version,
                                     struct elf_lookup *l)
{
    l->image = NULL;
    if (version->version) {
        struct ldso_object *named = version->named;
        return named && named->file->mark == s->in->mark && elf_lookup_begin(l, &named->file->image)
                   ? named
                   : NULL;
    }
    for (size_t i = 0; i < s->recent.n; i++) {
        if (elf_lookup_begin(l, &s->recent.items[i]->file->image)) {
            return s->recent.items[i];
        }
    }
    return NULL;
}

/* What a lookup that was started comes to. */
static enum lookup lookup_finish(struct search *s, const struct elf_lookup *l,
                                 const struct asked *asked, struct ldso_object **ret)
{
    struct match m = {s->p, asked->first, asked->want, l->image && l->image->versym, 0};
    if (l->image && (elf_lookup_finish(l, is_match, &m) || m.n_hidden == 1)) {
        *ret = asked->first;
        return LOOKUP_FOUND;
    }
    return look_up(s, &l->key, asked, ret);
}

static void look_up_symbols(struct search *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct asked *asked = &s->asked[i];
        asked->want = reference_version(s->references, s->lookups[i].versym);
        asked->first = ask_first(s, asked->want.version, &s->lookups[i]);
    }
    elf_lookup_go(s->lookups, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t index = s->lookups[i].index;
        struct ldso_object *found = NULL;
        enum lookup how = lookup_finish(s, &s->lookups[i], &s->asked[i], &found);
        if (how != LOOKUP_FOUND) {
            VEC_PUSH(s->p->arena, &s->missing, (struct missing){index, how});
            continue;
        }
        if (!s->p->store->one_process) {
            note_provider(s, index, found->file);
        }
        if (s->recent.items[0] != found) {
            remember_recent(&s->recent, found);
        }
    }
}

/* Whose definition of a symbol an object gets, or NULL. */
static struct ldso_object *definer(struct ldso_process *p, struct ldso_object *o,
                                   const struct scopes *in, uint32_t symbol,
                                   const struct references *references)
{
    struct elf_symbol sym;
    if (!elf_symbol_at(&o->file->image, symbol, &sym)) {
        return NULL;
    }
    struct elf_lookup_key key = elf_lookup_key(sym.name);
    struct wanted want = reference_version(references, sym.versym);
    if (o->file->image.symbolic && lookup_in(p, o, &key, want) == LOOKUP_FOUND) {
        return o;
    }
    for (size_t s = 0; s < in->n; s++) {
        for (size_t i = 0; i < in->items[s].n; i++) {
            if (lookup_in(p, in->items[s].items[i], &key, want) == LOOKUP_FOUND) {
                return in->items[s].items[i];
            }
        }
    }
    return NULL;
}

/* How relocations use the symbols that were not found: 1 in the eager table, 2 lazily only. */
struct use {
    unsigned char *used;
    uint32_t n;
    uint32_t first_eager, first_lazy; // symbol index, 0 if none
    uint64_t at_eager, at_lazy;       // ... and the number of the relocation
};

static void note_use(const struct elf_relocation *r, void *arg)
{
    struct use *u = arg;
    if (r->symbol >= u->n || !u->used[r->symbol]) {
        return;
    }
    uint32_t *first = r->lazy ? &u->first_lazy : &u->first_eager;
    if (!*first) {
        *first = r->symbol;
        *(r->lazy ? &u->at_lazy : &u->at_eager) = r->number;
    }
}

static const char *missing_text(struct ldso_process *p, struct ldso_object *o, const char *name,
                                const struct reference *want, enum lookup how)
{
    const char *who = ldso_shown_name(p, o);
    if (how == LOOKUP_BUG) {
        return arena_printf(p->arena,
                            "%s: symbol %s%s version %s not defined in file %s with link "
                            "time reference",
                            who, name, p->glibc_minor >= 30 ? "," : "", want->version, want->file);
    }
    return arena_printf(p->arena, "%s: undefined symbol: %s%s%s", who, name,
                        want->version ? ", version " : "", want->version ? want->version : "");
}

static struct use uses_of(struct ldso_process *p, const struct elf_image *e,
                          const struct missing *missing, size_t n)
{
    struct use use = {.n = elf_symbol_undef_count(e)};
    use.used = arena_alloc(p->arena, use.n);
    for (size_t i = 0; i < n; i++) {
        use.used[missing[i].index] = 1;
    }
    (void)elf_relocations(e, NULL, note_use, &use); // damaged tables name no symbol
    return use;
}

static const char *report_tls(struct ldso_process *p, struct ldso_object *o,
                              struct ldso_object *owner)
{
    struct ldso_defect d = {.kind = LDSO_STATIC_TLS,
                            .object = o,
                            .provider = owner,
                            .load = p->current_load,
                            .fatal = true,
                            .tls_free = ldso_tls_free(p)};
    d.text = arena_printf(p->arena, "%s: cannot allocate memory in static TLS block",
                          ldso_shown_name(p, owner));
    for (size_t i = 0; i < p->objects.n; i++) {
        struct ldso_object *other = p->objects.items[i];
        size_t n_uses = 0;
        (void)ldso_tls_uses(p, other->file, &n_uses);
        if (other->tls_late) {
            VEC_PUSH(p->arena, &d.tls_late, other);
        } else if (!other->tls_offset && (n_uses || other == owner)) {
            d.tls_wanted += other->file->image.tls.size + other->file->image.tls.align;
        }
    }
    ldso_defect_add(p, d);
    return d.text;
}

/* Static TLS that the object's relocations want, up to relocation number `end`: of its own block or
 * of that of who defines the symbol. */
static const char *check_tls(struct ldso_process *p, struct ldso_object *o, const struct scopes *in,
                             uint64_t end)
{
    size_t n = 0;
    if (!p->tls.known) {
        return NULL; // the start: all its objects have a place
    }
    const struct ldso_tls_use *uses = ldso_tls_uses(p, o->file, &n);
    struct references references = {0};
    for (size_t i = 0; i < n && uses[i].number < end; i++) {
        struct ldso_object *owner = o;
        if (uses[i].symbol) {
            if (!references.n) {
                read_references(p, o, &references);
            }
            owner = definer(p, o, in, uses[i].symbol, &references);
        }
        if (owner && owner->file->image.tls.size && !ldso_tls_place(p, owner, uses[i].optional) &&
            !uses[i].optional) {
            return report_tls(p, o, owner);
        }
    }
    return NULL;
}

/* Says of one object which of its missing symbols stops it. */
static const char *report_missing(struct ldso_process *p, struct ldso_object *o,
                                  const struct references *references, const missing_list *missing,
                                  const struct use *use, bool fatal)
{
    const struct elf_image *e = &o->file->image;
    uint32_t index = use->first_eager ? use->first_eager : use->first_lazy;
    struct elf_symbol sym;
    if (!index || !elf_symbol_at(e, index, &sym)) {
        return NULL; // undefined, and nothing refers to it
    }
    enum lookup how = LOOKUP_MISSING;
    for (size_t i = 0; i < missing->n; i++) {
        how = missing->items[i].index == index ? missing->items[i].how : how;
    }
    const struct reference *want = reference_version(references, sym.versym).version;
    const char *text = missing_text(p, o, sym.name, want, how);
    ldso_defect_add(
        p, (struct ldso_defect){.kind = fatal ? LDSO_SYMBOL_MISSING : LDSO_SYMBOL_MISSING_LAZY,
                                .object = o,
                                .provider = want->named,
                                .symbol = sym.name,
                                .version = want->version,
                                .text = text,
                                .load = p->current_load,
                                .fatal = fatal});
    return fatal ? text : NULL;
}

/* Whether every library that defined one of the object's symbols last time is in the scope again:
 * then nothing is missing, and the symbols need not be visited. */
static bool served_as_before(const struct ldso_file *f, unsigned mark)
{
    for (size_t i = 0; i < f->served_by.n; i++) {
        if (f->served_by.items[i]->mark != mark) {
            return false;
        }
    }
    return f->served_complete;
}

/* Passes over symbols of which somebody in the scope is known to define them from an earlier
 * process: only whether a symbol is found matters here, not which definition wins. */
static size_t not_known(struct search *s, size_t n)
{
    struct ldso_file *const *providers = s->object->file->providers;
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        struct ldso_file *before = providers[s->lookups[i].index];
        if (before && before->mark == s->in->mark) {
            note_provider(s, s->lookups[i].index, before);
        } else {
            s->lookups[left++] = s->lookups[i];
        }
    }
    return left;
}

/* Looks up all symbols that the object wants. */
static missing_list missing_of(struct ldso_process *p, struct ldso_object *o,
                               const struct scopes *in, const struct references *references)
{
    const struct elf_image *e = &o->file->image;
    struct elf_wanted wanted = {1, elf_symbol_undef_count(e), references->settled, references->n};
    struct search s; // its arrays are not cleared, as that would take longer than a small object
    s.p = p;
    s.object = o;
    s.in = in;
    s.references = references;
    s.seen = ldso_store_mark(p->store);
    s.recent.n = 0;
    s.recent.items[0] = NULL;
    s.missing = (missing_list){0};
    o->file->served_by.n = 0;
    for (size_t i = 0; i < o->deps.n && s.recent.n < RECENT; i++) {
        if (o->deps.items[i]->file->mark == in->mark) {
            s.recent.items[s.recent.n++] = o->deps.items[i];
        }
    }
    while (wanted.at < wanted.end) {
        size_t n = elf_symbols_wanted(e, &wanted, s.lookups, AT_ONCE);
        look_up_symbols(&s, o->file->providers ? not_known(&s, n) : n);
    }
    return s.missing;
}

static const char *check_object(struct ldso_process *p, struct ldso_object *o,
                                const struct scopes *in, struct references *references, bool now)
{
    const struct elf_image *e = &o->file->image;
    if (served_as_before(o->file, in->mark)) {
        return check_tls(p, o, in, UINT64_MAX);
    }
    read_references(p, o, references);
    if (o->file->looked_up && !o->file->providers) { // it may come again and again
        o->file->providers =
            arena_array(p->store->arena, elf_symbol_undef_count(e), sizeof(struct ldso_file *));
    }
    missing_list missing = missing_of(p, o, in, references);
    o->file->looked_up = true;
    o->file->served_complete = missing.n == 0 && !p->store->one_process;
    if (missing.n == 0) {
        return check_tls(p, o, in, UINT64_MAX);
    }
    struct use use = uses_of(p, e, missing.items, missing.n);
    bool fatal = use.first_eager || (use.first_lazy && (now || e->bind_now));
    const char *text = check_tls(p, o, in,
                                 !fatal            ? UINT64_MAX
                                 : use.first_eager ? use.at_eager
                                                   : use.at_lazy);
    return text ? text : report_missing(p, o, references, &missing, &use, fatal);
}

const char *ldso_check_symbols(struct ldso_process *p, struct ldso_object *const *objects, size_t n,
                               struct ldso_object *root, bool now)
{
    struct scopes in = {.items = {{p->global.items, p->global.n}}, .n = 1};
    if (root) {
        in.items[in.n++] = (struct scope){root->scope.items, root->scope.n};
    }
    in.mark = ldso_store_mark(p->store);
    for (size_t s = 0; s < in.n; s++) {
        for (size_t i = 0; i < in.items[s].n; i++) {
            in.items[s].items[i]->file->mark = in.mark;
        }
    }
    struct references references = {0};
    const char *first = NULL;
    for (size_t i = 0; i < n && !(first && root); i++) {
        if (!objects[i]->relocated) {
            objects[i]->relocated = true;
            const char *text = check_object(p, objects[i], &in, &references, now);
            first = first ? first : text;
        }
    }
    return first;
}
