/* Names of functions that an object does not export, out of its file: read with plain reads, since
 * a mapping of a file that is cut short meanwhile would end the program. */
#include <fcntl.h>
#include <sys/syscall.h>

#include "inject/gpucalls/gpucall.h"

enum { AT_ONCE = 64, SECTIONS_MAX = 1024, SYMBOLS_MAX = 1 << 20 };

static bool read_at(long fd, void *ret, size_t n, uint64_t offset)
{
    return system_call(SYS_pread64, fd, (long)ret, (long)n, (long)offset, 0, 0) == (long)n;
}

static bool find_section(long fd, const Elf64_Ehdr *e, uint32_t type, Elf64_Shdr *ret)
{
    for (unsigned i = 0; i < e->e_shnum && i < SECTIONS_MAX; i++) {
        if (!read_at(fd, ret, sizeof *ret, e->e_shoff + i * sizeof *ret)) {
            return false;
        }
        if (ret->sh_type == type) {
            return true;
        }
    }
    return false;
}

/* The name's offset in the table of texts; 0: no function holds the address. */
static uint32_t find_symbol(long fd, const Elf64_Shdr *table, uintptr_t at)
{
    Elf64_Sym symbols[AT_ONCE];
    uint64_t n = table->sh_size / sizeof *symbols;
    n = n < SYMBOLS_MAX ? n : SYMBOLS_MAX;
    for (uint64_t done = 0; done < n;) {
        size_t now = n - done < AT_ONCE ? (size_t)(n - done) : AT_ONCE;
        if (!read_at(fd, symbols, now * sizeof *symbols,
                     table->sh_offset + done * sizeof *symbols)) {
            return 0;
        }
        for (size_t i = 0; i < now; i++) {
            const Elf64_Sym *s = &symbols[i];
            if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_shndx != SHN_UNDEF &&
                at >= s->st_value && at - s->st_value < s->st_size) {
                return s->st_name;
            }
        }
        done += now;
    }
    return 0;
}

static bool read_name(long fd, const Elf64_Ehdr *e, const Elf64_Shdr *table, uint32_t name,
                      char *ret, size_t max)
{
    Elf64_Shdr texts;
    if (table->sh_link >= e->e_shnum ||
        !read_at(fd, &texts, sizeof texts, e->e_shoff + table->sh_link * sizeof texts)) {
        return false;
    }
    long n = system_call(SYS_pread64, fd, (long)ret, (long)(max - 1),
                         (long)(texts.sh_offset + name), 0, 0);
    ret[n > 0 ? n : 0] = '\0';
    return *ret;
}

const char *gpucall_file_symbol(const char *path, uintptr_t at, char *ret, size_t max)
{
    Elf64_Ehdr e;
    Elf64_Shdr table;
    long fd =
        system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0, 0, 0);
    if (fd < 0) {
        return NULL;
    }
    bool found = false;
    if (read_at(fd, &e, sizeof e, 0) && e.e_ident[EI_CLASS] == ELFCLASS64 &&
        e.e_shentsize == sizeof table && find_section(fd, &e, SHT_SYMTAB, &table)) {
        uint32_t name = find_symbol(fd, &table, at);
        found = name && read_name(fd, &e, &table, name, ret, max);
    }
    (void)system_call(SYS_close, fd, 0, 0, 0, 0, 0);
    return found ? ret : NULL;
}
