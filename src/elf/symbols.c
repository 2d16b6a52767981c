/* Symbols and how they are found by name; sections and relocations, which tell about them. */
#include <string.h>

#include "elf/names.h"
#include "elf/tables.h"

/* NULL: there is no such symbol. */
static inline const unsigned char *symbol_bytes(const struct elf_image *e, uint32_t index)
{
    return e->is64 ? table_entry_at(e, &e->symbols, e->symtab, index, sizeof(Elf64_Sym))
                   : table_entry_at(e, &e->symbols, e->symtab, index, sizeof(Elf32_Sym));
}

/* NULL: there is no table, or it ends before. */
static inline const unsigned char *versym_bytes(const struct elf_image *e, uint32_t index)
{
    return table_entry_at(e, &e->versyms, e->versym, index, 2);
}

static Elf64_Sym converted_symbol(const struct elf_image *e, const unsigned char *p)
{
    if (e->is64) {
        return (Elf64_Sym){elf_u32(e, p),     p[4], p[5], elf_u16(e, p + 6), elf_u64(e, p + 8),
                           elf_u64(e, p + 16)};
    }
    return (Elf64_Sym){elf_u32(e, p),    p[12], p[13], elf_u16(e, p + 14), elf_u32(e, p + 4),
                       elf_u32(e, p + 8)};
}

/* A symbol of either class and byte order. */
static inline Elf64_Sym symbol_from(const struct elf_image *e, const unsigned char *p)
{
    Elf64_Sym sym;
    if (!e->native) {
        return converted_symbol(e, p);
    }
    memcpy(&sym, p, sizeof sym);
    return sym;
}

static inline const char *symbol_name(const struct elf_image *e, const unsigned char *p)
{
    return elf_string(e, elf_u32(e, p)); // st_name, the first in both classes
}

static inline __attribute__((always_inline)) struct elf_symbol
named_symbol(const struct elf_image *e, const unsigned char *p, uint32_t index, const char *name)
{
    const unsigned char *version = versym_bytes(e, index);
    Elf64_Sym sym = symbol_from(e, p);
    return (struct elf_symbol){
        .name = name,
        .value = sym.st_value,
        .size = sym.st_size,
        .shndx = sym.st_shndx,
        .type = ELF64_ST_TYPE(sym.st_info),
        .bind = ELF64_ST_BIND(sym.st_info),
        .visibility = ELF64_ST_VISIBILITY(sym.st_other),
        .versym = version ? elf_u16(e, version) : 0xffff,
    };
}

bool elf_symbol_at(const struct elf_image *e, uint32_t index, struct elf_symbol *ret)
{
    const unsigned char *p = symbol_bytes(e, index);
    const char *name = p ? symbol_name(e, p) : NULL;
    if (name) {
        *ret = named_symbol(e, p, index, name);
    }
    return name != NULL;
}

struct section_table {
    const unsigned char *first;
    uint16_t n, names; // number of headers, index of the one with the names
    size_t size;       // of a header
};

static struct section_table sections_of(const struct elf_image *e)
{
    struct section_table t = {.size = e->is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr)};
    const unsigned char *p = elf_bytes(e, 0, e->is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr));
    if (!p) {
        return t;
    }
    t.n = elf_u16(e, p + (e->is64 ? 60 : 48));
    t.names = elf_u16(e, p + (e->is64 ? 62 : 50));
    t.first = elf_bytes(e, e->is64 ? elf_u64(e, p + 40) : elf_u32(e, p + 32), t.size * t.n);
    t.n = t.first ? t.n : 0;
    return t;
}

static void section_place(const struct elf_image *e, const unsigned char *header,
                          uint64_t *ret_offset, uint64_t *ret_size)
{
    *ret_offset = e->is64 ? elf_u64(e, header + 24) : elf_u32(e, header + 16);
    *ret_size = e->is64 ? elf_u64(e, header + 32) : elf_u32(e, header + 20);
}

bool elf_section(const struct elf_image *e, const char *name, uint64_t *ret_offset,
                 uint64_t *ret_size)
{
    struct section_table t = sections_of(e);
    uint64_t names_at = 0, names_size = 0;
    if (t.names >= t.n) {
        return false;
    }
    section_place(e, t.first + t.size * t.names, &names_at, &names_size);
    for (uint16_t i = 0; i < t.n; i++) {
        const unsigned char *header = t.first + t.size * i;
        uint32_t at = elf_u32(e, header);
        const char *text = at < names_size ? text_at(e, names_at + at, names_size - at) : NULL;
        uint64_t offset = 0, size = 0;
        section_place(e, header, &offset, &size);
        if (text && strcmp(text, name) == 0 && elf_inside(e, offset, size)) {
            *ret_offset = offset;
            *ret_size = size;
            return true;
        }
    }
    return false;
}

/* Symbols of an object without any hash table: only its section headers know. */
static uint32_t symbols_by_section(const struct elf_image *e)
{
    struct section_table t = sections_of(e);
    for (uint16_t i = 0; e->symtab && i < t.n; i++) {
        const unsigned char *header = t.first + t.size * i;
        if (elf_u32(e, header + 4) == SHT_DYNSYM) {
            uint64_t offset = 0, size = 0;
            section_place(e, header, &offset, &size);
            return (uint32_t)(size / symbol_size(e));
        }
    }
    return 0;
}

struct elf_lookup_key elf_lookup_key(const char *name)
{
    uint32_t hash = 5381;
    for (const char *p = name; *p; p++) {
        hash = hash * 33 + (unsigned char)*p;
    }
    return (struct elf_lookup_key){name, hash};
}

/* `own`: the name of the symbol at p, or NULL. */
static bool visit_if_same(const struct elf_image *e, const unsigned char *p, uint32_t index,
                          const char *own, const char *name,
                          bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    if (!own || strcmp(own, name) != 0) {
        return false;
    }
    struct elf_symbol sym = named_symbol(e, p, index, own);
    return visit(&sym, arg);
}

static bool visit_if_named(const struct elf_image *e, uint32_t index, const char *name,
                           bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    const unsigned char *p = symbol_bytes(e, index);
    return visit_if_same(e, p, index, p ? symbol_name(e, p) : NULL, name, visit, arg);
}

static inline bool gnu_passes(const struct elf_image *e, uint32_t hash)
{
    uint64_t filter, second = (uint64_t)hash >> e->gnu.shift;
    if (e->native) {
        memcpy(&filter, e->gnu.bloom + (size_t)(hash / 64 & e->gnu.bloom_mask) * 8, sizeof filter);
        return filter >> (hash & 63) & filter >> (second & 63) & 1;
    }
    uint32_t bits = e->is64 ? 64 : 32;
    filter = image_word(e, e->gnu.bloom + (size_t)(hash / bits & e->gnu.bloom_mask) * (bits / 8));
    return filter >> (hash & (bits - 1)) & filter >> (second & (bits - 1)) & 1;
}

static inline const unsigned char *gnu_bucket(const struct elf_image *e, uint32_t hash)
{
    return e->gnu.buckets + (size_t)(hash % e->gnu.nbuckets) * 4;
}

/* Where the chain of a bucket begins; 0: no name is there. */
static inline uint32_t gnu_first(const struct elf_image *e, const unsigned char *bucket)
{
    uint32_t index = elf_u32(e, bucket);
    return index < e->gnu.symoffset ? 0 : index;
}

enum { CHAIN_LONG = 64 }; // symbols; in the chains that linkers make there are a few

static void note_walk(const struct elf_image *e, uint32_t n)
{
    if (e->names) {
        e->names->walked += n;
    }
}

/* The first symbol from *index on, in its chain, with this hash; 0: there is none. *index is where
 * the walk ended. */
static inline uint32_t walk_chain(const struct elf_image *e, uint32_t *at_index, uint32_t hash)
{
    const struct elf_table *chains = &e->gnu.chains;
    for (uint32_t index = *at_index; index; index++) { // to the chain's mark or the file's end
        *at_index = index;
        uint32_t at = index - e->gnu.symoffset, chain;
        if (e->native && at < chains->n_near) {
            memcpy(&chain, chains->near + (size_t)at * 4, sizeof chain);
        } else {
            const unsigned char *c = table_entry_at(e, chains, e->gnu.chains_at, at, 4);
            if (!c) {
                return 0;
            }
            chain = elf_u32(e, c);
        }
        if ((chain ^ hash) < 2) { // all but the mark
            return index;
        }
        if (chain & 1) {
            return 0;
        }
    }
    return 0;
}

static inline uint32_t next_in_chain(const struct elf_image *e, uint32_t index, uint32_t hash)
{
    uint32_t end = index, found = walk_chain(e, &end, hash);
    if (end - index > CHAIN_LONG) {
        note_walk(e, end - index);
    }
    return found;
}

static inline bool ends_chain(const struct elf_image *e, uint32_t index)
{
    const unsigned char *c =
        table_entry_at(e, &e->gnu.chains, e->gnu.chains_at, index - e->gnu.symoffset, 4);
    return !c || elf_u32(e, c) & 1;
}

/* The next symbol with the same hash; 0: there is none. */
static inline uint32_t next_same(const struct elf_image *e, uint32_t index, uint32_t hash)
{
    return ends_chain(e, index) ? 0 : next_in_chain(e, index + 1, hash);
}

/* `index`: a symbol with the key's hash, or 0. */
static bool find_from(const struct elf_image *e, const struct elf_lookup_key *key, uint32_t index,
                      bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    uint32_t n = 0;
    for (; index; index = next_same(e, index, key->gnu_hash)) {
        if (visit_if_named(e, index, key->name, visit, arg)) {
            return true;
        }
        if (++n > CHAIN_LONG) {
            note_walk(e, 1);
        }
    }
    return false;
}

static uint32_t gnu_hash_of(const char *name)
{
    return elf_lookup_key(name).gnu_hash;
}

/* The array of chains, as far as a bucket leads into it. */
static struct elf_names_chains gnu_chains(const struct elf_image *e)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < e->gnu.nbuckets; i++) {
        uint32_t index = elf_u32(e, e->gnu.buckets + (size_t)i * 4);
        last = index >= e->gnu.symoffset && index > last ? index : last;
    }
    uint64_t n = last ? (uint64_t)last - e->gnu.symoffset + 1 : 0;
    while (n && n < e->gnu.chains.n && !ends_chain(e, e->gnu.symoffset + (uint32_t)n - 1)) {
        n++;
    }
    n = n < e->gnu.chains.n ? n : e->gnu.chains.n;
    return (struct elf_names_chains){elf_bytes(e, e->gnu.chains_at, n * 4), (uint32_t)n,
                                     e->gnu.symoffset, gnu_hash_of};
}

static const char *name_at(const struct elf_image *e, uint32_t index)
{
    const unsigned char *p = symbol_bytes(e, index);
    return p ? symbol_name(e, p) : NULL;
}

/* Whether lookups in DT_GNU_HASH go by the index. */
static inline bool gnu_has_index(const struct elf_image *e)
{
    return e->names && e->names->walked && elf_names_chains_ready(e->names, e, gnu_chains, name_at);
}

static bool find_in_index(const struct elf_image *e, const struct elf_lookup_key *key,
                          bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    const struct elf_names *names = e->names;
    uint32_t first = gnu_first(e, gnu_bucket(e, key->gnu_hash));
    uint32_t start = first - e->gnu.symoffset + 1;
    if (!first || !start || start > names->n) {
        return false;
    }
    for (uint32_t i = elf_names_first(names, key->name); i; i = names->next[i]) {
        if (i >= start && i <= names->end[start] &&
            visit_if_named(e, e->gnu.symoffset + i - 1, key->name, visit, arg)) {
            return true;
        }
    }
    return false;
}

static bool find_gnu(const struct elf_image *e, const struct elf_lookup_key *key,
                     bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    uint32_t hash = key->gnu_hash;
    if (!e->gnu.bloom || !gnu_passes(e, hash)) {
        return false;
    }
    if (gnu_has_index(e)) {
        return find_in_index(e, key, visit, arg);
    }
    return find_from(e, key, next_in_chain(e, gnu_first(e, gnu_bucket(e, hash)), hash), visit, arg);
}

/* Whether somebody has to define the symbol whose bytes these are. */
static bool symbol_is_wanted(const struct elf_image *e, const unsigned char *p)
{
    unsigned bind = ELF64_ST_BIND(p[e->is64 ? 4 : 12]);
    return elf_u16(e, p + (e->is64 ? 6 : 14)) == SHN_UNDEF && bind != STB_WEAK && bind != STB_LOCAL;
}

size_t elf_symbols_wanted(const struct elf_image *e, struct elf_wanted *w, struct elf_lookup *ret,
                          size_t max)
{
    size_t n = 0, named = 0;
    for (; w->at < w->end && n < max; w->at++) {
        const unsigned char *version = versym_bytes(e, w->at);
        uint16_t versym = version ? elf_u16(e, version) : 0xffff;
        if (version && (versym & 0x7fffu) < w->n_skip && w->skip[versym & 0x7fff]) {
            continue;
        }
        const unsigned char *p = symbol_bytes(e, w->at);
        const char *name = p && symbol_is_wanted(e, p) ? symbol_name(e, p) : NULL;
        if (name) {
            __builtin_prefetch(name);
            __builtin_prefetch(name + 63); // it may go on in the next line of the cache
            ret[n].key.name = name;
            ret[n].index = w->at;
            ret[n++].versym = versym;
        }
    }
    for (size_t i = 0; i < n; i++) { // their names are on the way to the cache
        if (*ret[i].key.name) {
            ret[named] = ret[i];
            ret[named].key = elf_lookup_key(ret[i].key.name);
            named++;
        }
    }
    return named;
}

bool elf_lookup_begin(struct elf_lookup *l, const struct elf_image *e)
{
    if (e->gnu.bloom && !gnu_passes(e, l->key.gnu_hash)) {
        return false;
    }
    l->image = e;
    l->bucket = e->gnu.bloom && !gnu_has_index(e) ? gnu_bucket(e, l->key.gnu_hash) : NULL;
    __builtin_prefetch(l->bucket);
    return true;
}

void elf_lookup_go(struct elf_lookup *lookups, size_t n)
{
    struct elf_lookup *end = lookups + n;
    for (struct elf_lookup *l = lookups; l < end; l++) {
        l->first = l->image && l->bucket ? gnu_first(l->image, l->bucket) : 0;
        const struct elf_table *chains = l->first ? &l->image->gnu.chains : NULL;
        if (chains && l->first - l->image->gnu.symoffset < chains->n_near) {
            __builtin_prefetch(chains->near + (size_t)(l->first - l->image->gnu.symoffset) * 4);
        }
    }
    for (struct elf_lookup *l = lookups; l < end; l++) {
        l->first = l->first ? next_in_chain(l->image, l->first, l->key.gnu_hash) : 0;
        l->symbol = l->first ? symbol_bytes(l->image, l->first) : NULL;
        if (l->symbol) {
            __builtin_prefetch(l->symbol);
            __builtin_prefetch(versym_bytes(l->image, l->first));
        }
    }
    for (struct elf_lookup *l = lookups; l < end; l++) {
        l->name = l->symbol ? symbol_name(l->image, l->symbol) : NULL;
        if (l->name) {
            __builtin_prefetch(l->name);
            __builtin_prefetch(l->name + 63);
        }
    }
}

bool elf_lookup_finish(const struct elf_lookup *l, bool (*visit)(const struct elf_symbol *, void *),
                       void *arg)
{
    const struct elf_image *e = l->image;
    if (!l->first) {
        return e && !l->bucket && elf_symbol_find(e, &l->key, visit, arg);
    }
    return visit_if_same(e, l->symbol, l->first, l->name, l->key.name, visit, arg) ||
           find_from(e, &l->key, next_same(e, l->first, l->key.gnu_hash), visit, arg);
}

static bool find_by_name(const struct elf_image *e, const char *name,
                         bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    for (uint32_t i = elf_names_first(e->names, name); i; i = e->names->next[i]) {
        if (visit_if_named(e, i, name, visit, arg)) {
            return true;
        }
    }
    return false;
}

/* DT_HASH: nbucket, nchain, buckets, chains. */
static bool find_sysv(const struct elf_image *e, const struct elf_lookup_key *key,
                      bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    const unsigned char *h = elf_bytes(e, e->hash, 8);
    uint32_t nbucket = h ? elf_u32(e, h) : 0, nchain = h ? elf_u32(e, h + 4) : 0;
    h = elf_bytes(e, e->hash + 8, ((uint64_t)nbucket + nchain) * 4);
    if (!h || nbucket == 0) {
        return false;
    }
    const struct elf_names_table table = {nbucket, nchain, h, h + (size_t)nbucket * 4};
    if (e->names && elf_names_ready(e->names, e, &table, name_at)) {
        return find_by_name(e, key->name, visit, arg);
    }
    uint32_t index = elf_u32(e, h + (size_t)(elf_sysv_hash(key->name) % nbucket) * 4);
    for (uint32_t left = nchain; index && index < nchain && left; left--) {
        if (e->names) {
            e->names->walked++;
        }
        if (visit_if_named(e, index, key->name, visit, arg)) {
            return true;
        }
        index = elf_u32(e, h + ((size_t)nbucket + index) * 4);
    }
    return false;
}

bool elf_symbol_find(const struct elf_image *e, const struct elf_lookup_key *key,
                     bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    if (e->gnu_hash) {
        return find_gnu(e, key, visit, arg);
    }
    return e->hash && find_sysv(e, key, visit, arg);
}

struct relocation_table {
    uint64_t at, size;
    bool rela, lazy;
    uint64_t skip;  // leading entries that are passed over
    uint64_t first; // number of its first entry
};

static bool relocations_of(const struct elf_image *e, const struct relocation_table *t,
                           const uint32_t *types,
                           void (*visit)(const struct elf_relocation *, void *), void *arg)
{
    size_t entry = (e->is64 ? 16u : 8u) + (t->rela ? (e->is64 ? 8u : 4u) : 0u);
    const unsigned char *p = elf_bytes(e, t->at, t->size);
    if (!p) {
        return false;
    }
    uint64_t n = t->size / entry;
    for (uint64_t i = t->skip < n ? t->skip : n; i < n; i++) {
        uint64_t info = image_word(e, p + i * entry + (e->is64 ? 8 : 4));
        uint32_t type = (uint32_t)(e->is64 ? info : info & 0xff);
        if (types && type != types[0] && type != types[1] && type != types[2]) {
            continue;
        }
        struct elf_relocation r = {(uint32_t)(e->is64 ? info >> 32 : info >> 8), type, t->lazy,
                                   t->first + i};
        visit(&r, arg);
    }
    return true;
}

bool elf_relocations(const struct elf_image *e, const uint32_t types[3],
                     void (*visit)(const struct elf_relocation *, void *), void *arg)
{
    bool ok = true;
    if (e->rel) {
        struct relocation_table t = {e->rel, e->rel_size,       e->rel_is_rela,
                                     false,  e->n_rel_relative, 0};
        ok &= relocations_of(e, &t, types, visit, arg);
    }
    if (e->jmprel) {
        struct relocation_table t = {e->jmprel, e->jmprel_size, e->jmprel_is_rela, true,
                                     0,         e->rel_size};
        ok &= relocations_of(e, &t, types, visit, arg);
    }
    return ok;
}

/* Linkers write 1 as the first hashed symbol where none is, however many are undefined. */
static bool exports_nothing(const struct elf_image *e)
{
    for (uint32_t i = 0; e->gnu.bloom && i < e->gnu.nbuckets; i++) {
        if (elf_u32(e, e->gnu.buckets + (size_t)i * 4)) {
            return false;
        }
    }
    return e->gnu.bloom != NULL;
}

static void note_last_symbol(const struct elf_relocation *r, void *arg)
{
    uint64_t *n = arg;
    *n = r->symbol >= *n ? (uint64_t)r->symbol + 1 : *n;
}

uint32_t elf_symbol_undef_count(const struct elf_image *e)
{
    const unsigned char *p = e->gnu_hash ? elf_bytes(e, e->gnu_hash, 16) : NULL;
    uint64_t n = 0;
    if (p && !exports_nothing(e)) {
        n = elf_u32(e, p + 4);
    } else if (p) {
        (void)elf_relocations(e, NULL, note_last_symbol, &n); // damaged tables name none
    } else if ((p = e->hash ? elf_bytes(e, e->hash, 8) : NULL)) {
        n = elf_u32(e, p + 4);
    } else {
        n = symbols_by_section(e);
    }
    return n < e->symbols.n ? (uint32_t)n : e->symbols.n;
}

bool elf_may_use_tls(const struct elf_image *e)
{
    if (e->flags & DF_STATIC_TLS || e->tls.size) {
        return true;
    }
    size_t size = symbol_size(e);
    uint32_t n = elf_symbol_undef_count(e);
    const unsigned char *p = e->symtab ? elf_bytes(e, e->symtab, n * size) : NULL;
    for (uint32_t i = 0; p && i < n; i++) {
        if (ELF64_ST_TYPE(p[i * size + (e->is64 ? 4 : 12)]) == STT_TLS) {
            return true;
        }
    }
    return false;
}
