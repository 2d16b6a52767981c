/* What Go's linker says of modules: elf/gobuild.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "elf/gobuild.h"

#define MARK  "0123456789abcdef"
#define LINES "path\tx\nmod\texample.org/x\tv1.2.3\th1:a=\ndep\texample.org/y\tv0.9.1\th1:b=\n"

enum { SECTION_AT = 0x200, HEADERS_AT = 0x400 };

struct program {
    unsigned char bytes[0x800];
    struct arena arena;
    struct elf_image image;
};

static struct program program;

static size_t put_text(unsigned char *to, const char *text)
{
    size_t n = strlen(text), at = 0;
    for (size_t rest = n; at == 0 || rest; rest >>= 7) { // 7 bits a byte, the lowest first
        to[at++] = (unsigned char)((rest & 127) | (rest > 127 ? 128 : 0));
    }
    memcpy(to + at, text, n);
    return at + n;
}

/* A program with .go.buildinfo as its last section, which ends with the text. */
static struct str modules_of(const char *version, const char *text, uint8_t flags)
{
    static const char names[] = "\0.go.buildinfo\0.shstrtab";
    struct program *p = &program;
    memset(p->bytes, 0, sizeof p->bytes);
    unsigned char *section = p->bytes + SECTION_AT;
    memcpy(section, "\xff Go buildinf:\x08", 15);
    section[15] = flags;
    size_t size = 32 + put_text(section + 32, version);
    size += put_text(section + size, text);
    Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                       .e_type = ET_EXEC,
                       .e_machine = EM_X86_64,
                       .e_version = EV_CURRENT,
                       .e_shoff = HEADERS_AT,
                       .e_ehsize = sizeof head,
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = 3,
                       .e_shstrndx = 2};
    const Elf64_Shdr sections[3] = {
        [1] = {.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = SECTION_AT, .sh_size = size},
        [2] = {.sh_name = 15, .sh_type = SHT_STRTAB, .sh_offset = 64, .sh_size = sizeof names}};
    memcpy(p->bytes, &head, sizeof head);
    memcpy(p->bytes + 64, names, sizeof names);
    memcpy(p->bytes + HEADERS_AT, sections, sizeof sections);
    elf_image_parse(&p->arena, p->bytes, sizeof p->bytes, &p->image);
    return elf_go_modules(&p->image);
}

static void modules(void **state)
{
    (void)state;
    struct str text = modules_of("go1.22.1", MARK LINES MARK, 2);
    assert_true(str_is(text, LINES));
    assert_true(str_is(elf_go_module(text, "example.org/x"), "v1.2.3"));
    assert_true(str_is(elf_go_module(text, "example.org/y"), "v0.9.1"));
    assert_int_equal(elf_go_module(text, "example.org/z").n, 0);
    assert_int_equal(elf_go_module(text, "x").n, 0); // a "path" is no module
}

static void replaced(void **state)
{
    (void)state;
    struct str text = modules_of(
        "go1.22.1", MARK "dep\ta\tv1\th\n=>\tb\tv2\th\ndep\tc\tv3\th\n=>\t../c\n" MARK, 2);
    assert_true(str_is(elf_go_module(text, "a"), "v2"));
    assert_int_equal(elf_go_module(text, "c").n, 0); // by a folder, which has no version
}

static void none(void **state)
{
    (void)state;
    assert_int_equal(modules_of("go1.17", MARK LINES MARK, 0).n, 0); // pointers to the texts
    assert_int_equal(modules_of("go1.22.1", MARK MARK, 2).n, 0);     // no modules
    assert_int_equal(modules_of("go1.22.1", MARK "x" MARK, 2).n, 0); // no line
    assert_int_equal(modules_of("go1.22.1", "", 2).n, 0);
}

static int start(void **state)
{
    (void)state;
    arena_init(&program.arena, 0, NULL, NULL);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    arena_release(&program.arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules),
        cmocka_unit_test(replaced),
        cmocka_unit_test(none),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
