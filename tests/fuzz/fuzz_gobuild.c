/* Any bytes as the build information of a Go program, in a small ELF file around them. */
#include <assert.h>
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "elf/gobuild.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NAMES = 32, HEAD = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Shdr) + NAMES };
static const char names[NAMES] = "\0.go.buildinfo\0.shstrtab";

static void put_sections(unsigned char *file, size_t size)
{
    Elf64_Ehdr head = {.e_type = ET_EXEC,
                       .e_machine = EM_X86_64,
                       .e_version = EV_CURRENT,
                       .e_shoff = sizeof head,
                       .e_ehsize = sizeof head,
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = 3,
                       .e_shstrndx = 2};
    Elf64_Shdr sections[3] = {
        {.sh_type = SHT_NULL},
        {.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = HEAD, .sh_size = size},
        {.sh_name = 15, .sh_type = SHT_STRTAB, .sh_offset = HEAD - NAMES, .sh_size = NAMES}};
    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_ident[EI_VERSION] = EV_CURRENT;
    memcpy(file, &head, sizeof head);
    memcpy(file + sizeof head, sections, sizeof sections);
    memcpy(file + HEAD - NAMES, names, NAMES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {"tags.cncf.io/container-device-interface", "a", ""};
    unsigned char *file = malloc(HEAD + size); // exactly: what is behind it is not read
    struct arena a;
    struct elf_image image;
    if (!file) {
        return 0;
    }
    put_sections(file, size);
    if (size) {
        memcpy(file + HEAD, data, size);
    }
    arena_init(&a, 0, NULL, NULL);
    elf_image_parse(&a, file, HEAD + size, &image);
    struct str text = elf_go_modules(&image);
    assert(!text.n || ((const unsigned char *)text.s >= file + HEAD &&
                       text.n <= (size_t)(file + HEAD + size - (const unsigned char *)text.s)));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct str version = elf_go_module(text, paths[i]);
        assert(version.n <= text.n);
    }
    arena_release(&a);
    free(file);
    return 0;
}
