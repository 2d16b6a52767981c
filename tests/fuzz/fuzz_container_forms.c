/* The forms of a container for an image that the input describes, strings that end with NUL: three
 * DT_NEEDED, the name, user, entrypoint and path of the image, the UUID of the GPU, and its
 * variables. What is printed is read back: it has the keys and the words of the model, and no byte
 * of the input is anywhere else. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/container.h"
#include "report/container_forms.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NEEDS = 3, NAME = NEEDS, USER, ENTRY, PATH, UUID, ENV, FIELDS = ENV + 3 };
typedef VEC(const char *) words;

static const char *fields[FIELDS];

/* ------------------------------------------------------------------ reading back */

/* The words of a shell's text that quotes only as diag_shell_word() does. */
static void split(struct arena *a, const char *s, words *ret)
{
    for (s += strspn(s, " \n"); *s; s += strspn(s, " \n")) {
        char *word = arena_alloc(a, strlen(s) + 1), *end = word;
        for (; *s && *s != ' ' && *s != '\n'; s++) {
            bool octal = s[0] == '$' && s[1] == '\'';
            if (*s == '\'' || octal) {
                for (s += 1 + octal; *s != '\''; s++) {
                    assert(*s);
                    bool number = octal && *s == '\\' && s[1] >= '0' && s[1] <= '3';
                    s += octal && *s == '\\';
                    *end++ = number ? (char)strtol((char[]){s[0], s[1], s[2], 0}, NULL, 8) : *s;
                    s += number ? 2 : 0;
                }
            } else {
                assert(*s == '\\' || !strchr("\"`$&|;<>()*?[]#~!{}", *s));
                s += *s == '\\';
                *end++ = *s;
            }
        }
        *end = '\0';
        VEC_PUSH(a, ret, word);
    }
}

/* What is not a comment; of a command, whose lines a backslash joins, one line. */
static char *body_of(struct arena *a, const char *text, bool command)
{
    char *body = arena_alloc(a, strlen(text) + 2), *end = body;
    for (struct str rest = str_of(text); rest.s;) {
        struct str line = str_cut(&rest, '\n');
        assert(str_is_seen(str_dup(a, line)));
        bool more = command && line.n && line.s[line.n - 1] == '\\';
        if (line.n && line.s[0] != '#') {
            memcpy(end, line.s, line.n - more);
            end += line.n - more;
            *end++ = more ? ' ' : '\n';
        }
    }
    *end = '\0';
    return body;
}

static void expect_command(struct arena *a, const struct container_settings *s,
                           enum container_format format, const char *body)
{
    words wanted = {0}, found = {0};
    report_options list = report_form_options(a, s, format);
    split(a, report_form_before(a, s, format), &wanted);
    split(a, report_form_start(format), &wanted);
    for (size_t i = 0; i < list.n; i++) {
        const struct report_option *o = &list.items[i];
        bool one = o->flag && ends_with(o->flag, "=");
        if (o->flag && !one) {
            VEC_PUSH(a, &wanted, o->flag);
        }
        VEC_PUSH(a, &wanted, one ? arena_printf(a, "%s%s", o->flag, o->value) : o->value);
    }
    split(a, report_form_end(a, s, format), &wanted);
    split(a, body, &found);
    assert(found.n == wanted.n);
    for (size_t i = 0; i < found.n; i++) {
        assert(strcmp(found.items[i], wanted.items[i]) == 0);
    }
}

static void expect_documents(struct arena *a, enum container_format format, const char *text,
                             const json_t *documents)
{
    const char *why = NULL;
    struct str rest = str_of(text);
    for (size_t i = 0; i < json_array_size(documents); i++) {
        size_t end = str_find(rest, "\n---\n");
        struct str part = {rest.s, end};
        json_t *read = format == CONTAINER_DEVCONTAINER ? json_loadb(part.s, part.n, 0, NULL)
                                                        : cdi_parse(a, part, &why);
        assert(json_equal(read, json_array_get(documents, i)));
        json_decref(read);
        end = end < rest.n ? end + strlen("\n---\n") : rest.n;
        rest = (struct str){rest.s + end, rest.n - end};
    }
    assert(rest.n == 0);
}

static void expect_lines(struct arena *a, const char *body)
{
    static const char *const keys[] = {"[Container]",
                                       "[Install]",
                                       "Image=",
                                       "AddDevice=",
                                       "PodmanArgs=",
                                       "SecurityLabelDisable=",
                                       "Environment=\"",
                                       "Volume=/",
                                       "ShmSize=",
                                       "WantedBy=",
                                       "lxc.uts.name = ",
                                       "lxc.rootfs.path = dir:/",
                                       "lxc.cgroup2.devices.allow = c ",
                                       "lxc.mount.entry = /",
                                       "lxc.environment = ",
                                       "FROM ",
                                       "RUN ",
                                       "ENV ",
                                       "USER "};
    for (struct str rest = str_of(body); rest.s;) {
        const char *line = str_dup(a, str_cut(&rest, '\n'));
        bool known = !*line;
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            known |= starts_with(line, keys[i]);
        }
        if (!known) {
            fprintf(stderr, "a line that no form has: %s\n", line);
        }
        assert(known);
    }
}

/* ------------------------------------------------------------------ printing */

static void print_form(struct arena *a, const struct container_settings *s,
                       enum container_format format)
{
    char *text = NULL;
    size_t n = 0;
    struct out out = {.file = open_memstream(&text, &n), .width = 80}, remarks = out;
    FILE *nowhere = fopen("/dev/null", "w");
    assert(out.file && nowhere);
    remarks.file = format == CONTAINER_DEVCONTAINER ? nowhere : out.file; // as the command has it
    report_container_text(&out, &remarks, a, s, format);
    int rc = out_json_dump(nowhere, report_container_json(a, s, format));
    assert(rc == 0);
    rc = fclose(out.file) | fclose(nowhere);
    assert(rc == 0 && text);
    json_t *documents = report_form_documents(a, s, format);
    const char *body = body_of(a, text, report_form_start(format));
    if (documents) {
        expect_documents(a, format, body, documents);
    } else if (report_form_lines(a, s, format)) {
        expect_lines(a, body);
    } else {
        expect_command(a, s, format, body);
    }
    json_decref(documents);
    free(text);
}

static void expect_mounts(const struct container_settings *s)
{
    for (size_t i = 0; i < s->mounts.n; i++) {
        const char *mount = s->mounts.items[i].value;
        assert(starts_with(mount, "/usr/lib/") && !strstr(mount, "..") && !strpbrk(mount, " ,\"'"));
        assert(strchr(mount, ':') && strchr(mount, ':') == strrchr(mount, ':'));
    }
}

static void use(void *arg, struct model *m)
{
    struct diag_report report;
    struct host host = {.pci = {.state = HOST_YES}};
    struct host_gpu gpu = {.vendor = HOST_NVIDIA,
                           .kind = "pci",
                           .bdf = "0000:01:00.0",
                           .usable = HOST_YES,
                           .name = "GPU",
                           .uuid = {.state = HOST_YES, .value = fields[UUID]}};
    struct image image = IMAGE_EMPTY;
    (void)arg;
    VEC_PUSH(m->arena, &host.gpus, gpu);
    image.name = fields[NAME];
    image.user = fields[USER];
    image.path = fields[PATH];
    VEC_PUSH(m->arena, &image.entrypoint, fields[ENTRY]);
    for (size_t i = ENV; i < FIELDS; i++) {
        VEC_PUSH(m->arena, &image.env, fields[i]);
    }
    m->host = &host;
    diag_run(m, &report);
    for (enum container_format format = 0; format < CONTAINER_FORMATS; format++) {
        struct container_settings s;
        struct container_pick pick;
        container_pick_one(&host, m->arena, &host.gpus.items[0], NULL, &pick);
        const struct container_question q = {.model = m,
                                             .report = &report,
                                             .host_root = m->root,
                                             .host = &host,
                                             .format = format,
                                             .pick = &pick,
                                             .program = "/usr/bin/gpumend",
                                             .image = &image,
                                             .image_path = fields[PATH]};
        container_settings(&q, &s);
        expect_mounts(&s);
        print_form(m->arena, &s, format);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char folder[] = "/usr/lib/x86_64-linux-gnu/libcublas.so.12";
    char *copy = malloc(size + 1), *s = copy, *end = copy + size;
    assert(copy);
    if (size) {
        memcpy(copy, data, size);
    }
    *end = '\0';
    for (size_t i = 0; i < FIELDS; i++) {
        fields[i] = s;
        s = s + strlen(s) < end ? s + strlen(s) + 1 : end;
    }
    struct elfmake program = {.interp = "/lib/ld.so", .needs = {"libcublas.so.12"}};
    for (size_t i = 0; i < NEEDS; i++) {
        program.needs[i + 1] = *fields[i] ? fields[i] : "libone.so.1";
    }
    world_write_elf(folder, &(struct elfmake){.soname = "libcublas.so.12"});
    world_write_elf("/etc/shadow", &(struct elfmake){.soname = "libshadow.so"});
    world_write_elf("/bin/app", &program);
    world_look("/bin/app", fields + ENV, FIELDS - ENV, use, NULL);
    free(copy);
    return 0;
}
