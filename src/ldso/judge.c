/* Would the loader accept this file? glibc elf/dl-load.c: open_verify, _dl_map_object_from_fd. */
#include "ldso/internal.h"

static struct ldso_verdict refuse(const char *says, const char *detail)
{
    return (struct ldso_verdict){
        .result = LDSO_INVALID, .fatal = true, .says = says, .detail = detail ? detail : says};
}

static struct ldso_verdict verdict_skip(enum ldso_result result, const char *detail)
{
    return (struct ldso_verdict){.result = result, .detail = detail};
}

/* The identification bytes, compared with the program's own. */
static bool judge_ident(const struct ldso_process *p, const struct elf_image *e,
                        struct ldso_verdict *ret)
{
    const unsigned char *own = p->main->file->image.ident;
    if (e->ident[EI_CLASS] != own[EI_CLASS]) {
        *ret = (struct ldso_verdict){
            .result = LDSO_WRONG_CLASS,
            .other_class = true,
            .detail = arena_printf(p->arena, "a %s-bit file, the process is %s-bit",
                                   e->ident[EI_CLASS] == ELFCLASS32 ? "32" : "64",
                                   own[EI_CLASS] == ELFCLASS32 ? "32" : "64")};
        return false;
    }
    if (e->ident[EI_DATA] != own[EI_DATA]) {
        *ret = refuse(own[EI_DATA] == ELFDATA2LSB ? "ELF file data encoding not little-endian"
                                                  : "ELF file data encoding not big-endian",
                      NULL);
        return false;
    }
    if (e->ident[EI_VERSION] != EV_CURRENT) {
        *ret = refuse("ELF file version ident does not match current one", NULL);
        return false;
    }
    unsigned char osabi = e->ident[EI_OSABI], abi = e->ident[EI_ABIVERSION];
    if (osabi != ELFOSABI_SYSV && osabi != ELFOSABI_GNU) {
        *ret = refuse("ELF file OS ABI invalid", NULL);
        return false;
    }
    /* VALID_ELF_ABIVERSION: SysV takes 0, GNU up to what libc-abis.h lists (3). */
    if (abi != 0 && !(osabi == ELFOSABI_GNU && abi < 4)) {
        *ret = refuse("ELF file ABI version invalid", NULL);
        return false;
    }
    for (int i = EI_PAD; i < EI_NIDENT; i++) {
        if (e->ident[i]) {
            *ret = refuse("nonzero padding in e_ident", NULL);
            return false;
        }
    }
    return true;
}

/* What a file without an ELF header is, by its first bytes. */
static const char *kind_of_other(const struct elf_image *e)
{
    enum { HEAD = 16 };
    const char *head = e->size >= HEAD ? (const char *)elf_bytes(e, 0, HEAD) : NULL;
    bool zeros = head != NULL, text = head && str_is_utf8(head, HEAD);
    for (size_t i = 0; head && i < HEAD; i++) {
        unsigned char c = (unsigned char)head[i];
        zeros = zeros && c == 0;
        text = text && (c >= ' ' || c == '\t' || c == '\n' || c == '\r');
    }
    return zeros  ? "its first bytes are zeros: it was not written completely"
           : text ? "a text file, not a library"
                  : "not an ELF file";
}

static bool judge_header(const struct ldso_process *p, const struct elf_image *e,
                         struct ldso_verdict *ret)
{
    if (e->state == ELF_STATE_TOO_SHORT ||
        (e->state == ELF_STATE_NOT_ELF && e->size < (p->main->file->image.is64 ? 64u : 52u))) {
        *ret = refuse("file too short",
                      e->size ? "the file is too short to be a library" : "the file is empty");
        return false;
    }
    if (e->state == ELF_STATE_NOT_ELF) {
        *ret = refuse("invalid ELF header", kind_of_other(e));
        return false;
    }
    if (!judge_ident(p, e, ret)) {
        return false;
    }
    if (e->version != EV_CURRENT) {
        *ret = refuse("ELF file version does not match current one", NULL);
        return false;
    }
    if (e->machine != p->main->file->image.machine) {
        *ret = verdict_skip(LDSO_WRONG_MACHINE,
                            arena_printf(p->arena, "built for %s, the process is %s",
                                         elf_machine_name(p->arena, e->machine), p->machine_name));
        return false;
    }
    if (e->type != ET_DYN && e->type != ET_EXEC) {
        *ret = refuse("only ET_DYN and ET_EXEC can be loaded", "an object file, not a library");
        return false;
    }
    if (e->phentsize != (e->is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr))) {
        *ret = refuse("ELF file's phentsize not the expected size", NULL);
        return false;
    }
    if (e->segments_cut) {
        *ret = refuse("cannot read file data", "the file is cut off inside its program headers");
        return false;
    }
    return true;
}

void ldso_note_cpu(struct ldso_process *p, const char *text)
{
    for (size_t i = 0; i < p->by_cpu.n; i++) {
        if (strcmp(p->by_cpu.items[i], text) == 0) {
            return;
        }
    }
    VEC_PUSH(p->arena, &p->by_cpu, text);
}

/* Bytes a page. Where it is not known the smallest: what it refuses, all refuse. */
static uint32_t process_page_size(const struct ldso_process *p)
{
    uint32_t sizes[LDSO_PAGE_SIZES];
    (void)ldso_page_sizes(p->main->file->image.machine, sizes);
    return p->cpu.page_size ? p->cpu.page_size : sizes[0];
}

/* `says` in glibc's words, and ours where smaller pages would do. */
static struct ldso_verdict refuse_page(const struct elf_segment *s, uint32_t page, const char *says)
{
    static const char *const ours[] = {
        "linked for pages of less than 16 KiB, and this kernel's are "
        "of 16 KiB",
        "linked for pages of less than 64 KiB, and this kernel's are "
        "of 64 KiB"};
    bool small_fits = page > 4096 && ((s->vaddr - s->offset) & 4095) == 0;
    return refuse(says, small_fits ? ours[page == 65536] : NULL);
}

static bool judge_segments(const struct elf_image *e, int glibc_minor, uint32_t page,
                           struct ldso_verdict *ret)
{
    size_t loads = 0;
    for (size_t i = 0; i < e->n_segments; i++) {
        const struct elf_segment *s = &e->segments[i];
        if (s->type != PT_LOAD) {
            continue;
        }
        loads++;
        /* Since 2.35 p_align may be anything, the page size decides (bug 28676). */
        if (glibc_minor < 35 && s->align & (page - 1)) {
            *ret = refuse_page(s, page, "ELF load command alignment not page-aligned");
            return false;
        }
        uint64_t align = glibc_minor < 35 ? s->align : page;
        if (align && ((s->vaddr - s->offset) & (align - 1))) {
            *ret = glibc_minor >= 35
                       ? refuse_page(s, page, "ELF load command address/offset not page-aligned")
                       : refuse("ELF load command address/offset not properly aligned", NULL);
            return false;
        }
    }
    if (loads == 0) {
        *ret = refuse("object file has no loadable segments", NULL);
        return false;
    }
    return true;
}

static bool empty_dynamic(const struct elf_image *e)
{
    bool any = false;
    for (size_t i = 0; i < e->n_segments; i++) {
        if (e->segments[i].type == PT_DYNAMIC) {
            any = e->segments[i].filesz != 0;
        }
    }
    return !any;
}

/* Where the page size is not known, what larger pages would change is noted. */
static bool judge_pages(struct ldso_process *p, const struct ldso_entry *entry, int glibc_minor,
                        struct ldso_verdict *ret)
{
    const struct elf_image *e = &entry->file->image;
    uint32_t sizes[LDSO_PAGE_SIZES];
    size_t n = p->cpu.page_size ? 0 : ldso_page_sizes(e->machine, sizes);
    if (!judge_segments(e, glibc_minor, process_page_size(p), ret)) {
        return false;
    }
    for (size_t i = 1; i < n; i++) {
        struct ldso_verdict other;
        if (!judge_segments(e, glibc_minor, sizes[i], &other)) {
            ldso_note_cpu(p, arena_printf(p->arena, "pages are of %u KiB and %s cannot be loaded",
                                          sizes[i] >> 10, entry->path));
            break;
        }
    }
    return true;
}

uint32_t ldso_kernel_refuses(struct ldso_process *p, const struct ldso_entry *entry)
{
    enum { ADDRESS_AND_OFFSET_ONLY = 35 }; // the rule of glibc since 2.35 is that of mmap
    struct ldso_verdict v;
    return judge_pages(p, entry, ADDRESS_AND_OFFSET_ONLY, &v) ? 0 : process_page_size(p);
}

/* Whether a whole page of a mapped segment lies behind the end of the file. */
static bool page_missing(const struct elf_image *e, uint32_t page)
{
    uint64_t end = ((uint64_t)e->size + page - 1) & ~(uint64_t)(page - 1);
    for (size_t i = 0; i < e->n_segments; i++) {
        const struct elf_segment *s = &e->segments[i];
        if (s->type == PT_LOAD && s->filesz && (s->offset > end || s->filesz > end - s->offset)) {
            return true;
        }
    }
    return false;
}

static bool judge_mapping(struct ldso_process *p, const struct ldso_entry *entry, bool dlopened,
                          bool opens_exec, struct ldso_verdict *ret)
{
    const struct elf_image *e = &entry->file->image;
    if (!judge_pages(p, entry, p->glibc_minor, ret)) {
        return false;
    }
    if (e->type == ET_EXEC && !opens_exec) {
        *ret = refuse("cannot dynamically load executable", NULL);
        return false;
    }
    if (empty_dynamic(e) && e->type == ET_DYN) {
        *ret = refuse("object file has no dynamic section",
                      e->has_dynamic ? "it holds debugging information only"
                                     : "it has no dynamic section");
        return false;
    }
    if (e->flags_1 & DF_1_PIE && !opens_exec && p->glibc_minor >= 30) {
        *ret = refuse("cannot dynamically load position-independent executable", NULL);
        return false;
    }
    if (e->flags_1 & DF_1_NOOPEN && dlopened) {
        *ret = refuse("shared object cannot be dlopen()ed", NULL);
        return false;
    }
    return true;
}

static bool image_is_cut(const struct elf_image *e, uint32_t page)
{
    return e->dynamic_bad || (page_missing(e, page) && (e->rel || e->jmprel || e->has_relr));
}

bool ldso_is_cut(const struct elf_image *e)
{
    uint32_t sizes[LDSO_PAGE_SIZES];
    (void)ldso_page_sizes(e->machine, sizes);
    return image_is_cut(e, sizes[0]);
}

struct ldso_verdict ldso_judge(struct ldso_process *p, const struct ldso_entry *entry,
                               bool dlopened, bool opens_exec)
{
    const struct elf_image *e = &entry->file->image;
    struct ldso_verdict v = {.result = LDSO_TAKEN};
    if (!judge_header(p, e, &v)) {
        return v;
    }
    if (p->glibc_minor < 31 && e->type == ET_EXEC && !opens_exec) {
        return refuse("cannot dynamically load executable", NULL); // by open_verify then
    }
    if (!judge_mapping(p, entry, dlopened, opens_exec, &v)) {
        v.at_map = true;
        return v;
    }
    if (image_is_cut(e, process_page_size(p))) {
        v.crash = true;
        v.detail = "the file is cut off: the loader maps it and the process is killed (SIGBUS) "
                   "when it reads the missing part";
    }
    return v;
}
