#include "host/internal.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "host/parse.h"
#include "ldso/cpu.h"

/* ------------------------------------------------------------------ the processor */

/* 0: it is no ELF file. */
static uint16_t head_machine(struct str head, bool *ret_little)
{
    enum { AT = EI_NIDENT + 2 };
    if (head.n < AT + 2 || !str_starts(head, ELFMAG)) {
        return EM_NONE;
    }
    *ret_little = head.s[EI_DATA] == ELFDATA2LSB;
    unsigned char first = (unsigned char)head.s[AT], second = (unsigned char)head.s[AT + 1];
    return (uint16_t)(*ret_little ? second << 8 | first : first << 8 | second);
}

/* What the shell of a file system is built for, which its machine executes; 0: not seen. */
static uint16_t shell_machine(struct root *r, struct arena *a)
{
    struct str head;
    bool all, little = false;
    if (root_read_head(r, a, "/bin/sh", sizeof(Elf64_Ehdr), &head, &all) < 0) {
        return EM_NONE;
    }
    uint16_t machine = head_machine(head, &little);
    return little ? machine : EM_NONE;
}

uint16_t host_machine(struct root *r, struct arena *a)
{
    struct str text, value;
    if (root_read(r, a, "/proc/cpuinfo", LDSO_CPUINFO_MAX, &text) == 0) {
        if (host_parse_key(text, "flags", ':', &value) && ldso_cpu_has_flag(value, "lm")) {
            return EM_X86_64; // "long mode"
        }
        if (host_parse_key(text, "CPU architecture", ':', &value) && str_is(value, "8")) {
            return EM_AARCH64;
        }
    }
    return r->is_host ? ldso_cpu_own_machine() : shell_machine(r, a);
}

/* ------------------------------------------------------------------ binfmt_misc */

/* Bytes as the kernel writes them, "7f454c46"; the number of them, 0 if they are none. */
static size_t binfmt_read_bytes(struct str text, unsigned char *to, size_t max)
{
    size_t n = text.n / 2;
    if (text.n % 2 || n > max) {
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        int high = str_hex_digit_small(text.s[2 * i]), low = str_hex_digit_small(text.s[2 * i + 1]);
        if (high < 0 || low < 0) {
            return 0;
        }
        to[i] = (unsigned char)(high << 4 | low);
    }
    return n;
}

/* The lines of one registration: "enabled", "interpreter PATH", "flags: OCF", "offset 0",
 * "magic HEX", "mask HEX". Those that go by an extension have no magic. */
static bool binfmt_parse(struct arena *a, struct str text, struct host_binfmt *ret)
{
    struct host_binfmt b = {0};
    struct str line;
    bool enabled = false;
    memset(b.mask, 0xff, sizeof b.mask);
    while (str_line(&text, &line)) {
        struct str key = str_cut(&line, ' ');
        uint64_t number;
        if (str_is(key, "enabled")) {
            enabled = true;
        } else if (str_is(key, "interpreter")) {
            b.interpreter = str_dup(a, line);
        } else if (str_is(key, "flags:")) {
            b.opened = str_find_char(line, 'F') < line.n;
        } else if (str_is(key, "offset") && str_u64(line, &number) && number < 4096) {
            b.offset = (size_t)number;
        } else if (str_is(key, "magic")) {
            b.n = binfmt_read_bytes(line, b.magic, sizeof b.magic);
        } else if (str_is(key, "mask") && binfmt_read_bytes(line, b.mask, sizeof b.mask) == 0) {
            return false;
        }
    }
    *ret = b;
    return enabled && b.n && b.interpreter;
}

static const char folder[] = "/proc/sys/fs/binfmt_misc";

/* Where the folder is empty or absent nothing is mounted on it, as in containers, in most captured
 * trees and on machines without systemd's automount; the kernel may have registrations all the
 * same. Only a kernel that has no such file system at all has none. */
static struct host_fact seen(struct host_look *l, int rc, size_t n)
{
    struct str text;
    if (rc == 0 && n) {
        return host_yes(folder, NULL);
    }
    if (rc < 0 && rc != -ENOENT) {
        return host_unknown(folder, host_why(l, rc));
    }
    if (host_read(l, "/proc/filesystems", &text) == 0 && str_find(text, "binfmt_misc") >= text.n) {
        return host_no(folder, "the kernel has no binfmt_misc");
    }
    return host_unknown(folder, l->host->container.inside.state == HOST_YES
                                    ? "it cannot be seen inside a container"
                                : l->root->is_host ? "it is not mounted"
                                                   : "it is not among these files");
}

void host_collect_binfmts(struct host_look *l)
{
    enum { FILES_MAX = 256 };
    struct host_binfmts *b = &l->host->binfmts;
    struct root_dir names = {0};
    struct str text;
    l->host->machine = host_machine(l->root, l->arena);
    int rc = root_list(l->root, l->arena, folder, FILES_MAX, NULL, &names);
    b->seen = seen(l, rc, names.n);
    if (rc == 0 && host_read(l, path_join(l->arena, folder, "status"), &text) == 0 &&
        str_starts(text, "disabled")) {
        return;
    }
    for (size_t i = 0; rc == 0 && i < names.n; i++) {
        struct host_binfmt one;
        if (host_read(l, path_join(l->arena, folder, names.names[i]), &text) == 0 &&
            binfmt_parse(l->arena, text, &one)) {
            one.name = names.names[i];
            VEC_PUSH(l->arena, &b->items, one);
        }
    }
}

/* ------------------------------------------------------------------ executing */

static bool binfmt_fits(const struct host_binfmt *b, struct str head)
{
    bool fits = head.n >= b->offset + b->n;
    for (size_t i = 0; fits && i < b->n; i++) {
        fits = (((unsigned char)head.s[b->offset + i] ^ b->magic[i]) & b->mask[i]) == 0;
    }
    return fits;
}

/* 32-bit programs of the same family run on most kernels. */
static bool is_native(uint16_t host, uint16_t program)
{
    return program == host || (host == EM_X86_64 && program == EM_386) ||
           (host == EM_AARCH64 && program == EM_ARM);
}

enum host_exec host_executes(const struct host *h, struct str head, uint16_t *ret_machine,
                             const struct host_binfmt **ret)
{
    bool little = true;
    *ret_machine = head_machine(head, &little);
    for (size_t i = 0; i < h->binfmts.items.n; i++) { // asked before the kernel's own formats
        if (binfmt_fits(&h->binfmts.items.items[i], head)) {
            *ret = &h->binfmts.items.items[i];
            return HOST_EXEC_INTERPRETED;
        }
    }
    return *ret_machine == EM_NONE || !h->machine          ? HOST_EXEC_UNKNOWN
           : little && is_native(h->machine, *ret_machine) ? HOST_EXEC_NATIVE
           : h->binfmts.seen.state == HOST_UNKNOWN         ? HOST_EXEC_UNKNOWN
                                                           : HOST_EXEC_NOT;
}
