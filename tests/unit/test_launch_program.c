/* Which program a command is: launch/program.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/program.h"

struct world {
    struct arena a;
    struct root root;
    char top[64];
};

static void put(struct world *w, const char *path, const char *text, size_t n, mode_t mode)
{
    char *full = arena_printf(&w->a, "%s%s", w->top, path);
    for (char *slash = strchr(full + strlen(w->top) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0755); // may be there
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(full, mode), 0);
}

static void put_text(struct world *w, const char *path, const char *text)
{
    put(w, path, text, strlen(text), 0755);
}

static int start(void **state)
{
    static const char elf[] = "\177ELF\2\1\1";
    static const char *const elfs[] = {"/usr/bin/python3.11", "/usr/bin/env",  "/bin/sh",
                                       "/usr/bin/nohup",      "/usr/bin/tool", "/venv/bin/python"};
    struct world *w = calloc(1, sizeof *w);
    struct gm_err err;
    assert_non_null(w);
    (void)snprintf(w->top, sizeof w->top, "/tmp/gpumend-program-XXXXXX");
    assert_non_null(mkdtemp(w->top));
    arena_init(&w->a, 0, NULL, NULL);
    assert_int_equal(root_open(&w->root, w->top, &err), 0);
    for (size_t i = 0; i < sizeof elfs / sizeof *elfs; i++) {
        put(w, elfs[i], elf, sizeof elf, 0755);
    }
    assert_int_equal(symlink("python3.11", arena_printf(&w->a, "%s/usr/bin/python3", w->top)), 0);
    put_text(w, "/venv/bin/app", "#!/venv/bin/python\nimport x\n");
    put_text(w, "/venv/bin/app-u", "#! /venv/bin/python  -uE \nimport x\n");
    put_text(w, "/venv/bin/by-env", "#!/usr/bin/env python3\n");
    put_text(w, "/venv/bin/by-env-s", "#!/usr/bin/env -S A=1 python3 -I '-X' \"dev\"\n");
    put_text(w, "/venv/bin/by-env-odd", "#!/usr/bin/env -S ${PY} x\n");
    put_text(w, "/venv/bin/long", "#!/bin/sh\n'''exec' /venv/bin/python \"$0\" \"$@\"\n' '''\n");
    put_text(w, "/venv/bin/moved",
             "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/"
             "'python' \"$0\" \"$@\"\n' '''\n");
    put_text(w, "/venv/bin/start", "#!/bin/sh\nexec app\n");
    put_text(w, "/venv/bin/lost", "#!/nowhere/python\n");
    put_text(w, "/venv/bin/bare", "echo\n");
    put_text(w, "/venv/bin/loop", "#!/venv/bin/loop\n");
    put_text(w, "/venv/bin/empty-line", "#!\n");
    put_text(w, "/venv/bin/shims/python3", "#!/bin/bash\nexec pyenv exec\n");
    put_text(w, "/home/a.py", "import x\n");
    put(w, "/venv/bin/plain", "text", 4, 0644);
    *state = w;
    return 0;
}

static int finish(void **state)
{
    struct world *w = *state;
    char *command = arena_printf(&w->a, "rm -r '%s'", w->top);
    root_close(&w->root);
    assert_int_equal(system(command), 0);
    arena_release(&w->a);
    free(w);
    return 0;
}

static const char *shown(struct arena *a, const struct launch_program *p)
{
    return arena_printf(a, "%s %s %s%s%s%s%s%s%s%s%s%s%s%s", launch_program_kind_name(p->kind),
                        p->file, p->python ? p->python : "-", p->script ? " script=" : "",
                        p->script ? p->script : "", p->module ? " module=" : "",
                        p->module ? p->module : "", p->code ? " code=" : "", p->code ? p->code : "",
                        p->ignores_python_variables ? " E" : "", p->no_user_site ? " s" : "",
                        p->lazy_imports ? " lazy=" : "", p->lazy_imports ? p->lazy_imports : "",
                        p->unseen ? " unseen" : "");
}

static void commands(void **state)
{
    struct world *w = *state;
    static const struct {
        const char *words[8];
        const char *wanted; // NULL: `status`
        int status;
    } cases[] = {
        {{"python3", "app.py", "-c", "x"},
         "python /usr/bin/python3 /usr/bin/python3 script=/home/app.py",
         0},
        {{"python3", "-u", "-W", "ignore", "-Xdev", "/a.py"},
         "python /usr/bin/python3 /usr/bin/python3 script=/a.py",
         0},
        {{"python3", "-Xlazy_imports=normal", "-uX", "lazy_imports=all", "-X", "dev", "/a.py"},
         "python /usr/bin/python3 /usr/bin/python3 script=/a.py lazy=all",
         0},
        {{"python3", "/a.py", "-X", "lazy_imports=all"},
         "python /usr/bin/python3 /usr/bin/python3 script=/a.py",
         0},
        {{"python3", "-Em", "uvicorn", "app:x"},
         "python /usr/bin/python3 /usr/bin/python3 module=uvicorn E",
         0},
        {{"python3", "-muvicorn"}, "python /usr/bin/python3 /usr/bin/python3 module=uvicorn", 0},
        {{"python3", "-Ic", "import torch"},
         "python /usr/bin/python3 /usr/bin/python3 code=import torch E s",
         0},
        {{"python3", "-c"}, "python /usr/bin/python3 /usr/bin/python3", 0},
        {{"python3", "-", "x"}, "python /usr/bin/python3 /usr/bin/python3", 0},
        {{"python3"}, "python /usr/bin/python3 /usr/bin/python3", 0},
        {{"python3", "--check-hash-based-pycs", "never", "a.py"},
         "python /usr/bin/python3 /usr/bin/python3 script=/home/a.py",
         0},
        {{"/venv/bin/app", "-c"}, "python /venv/bin/app /venv/bin/python script=/venv/bin/app", 0},
        {{"../venv/bin/app"},
         "python /home/../venv/bin/app /venv/bin/python script=/home/../venv/bin/app",
         0},
        {{"app-u"}, "python /venv/bin/app-u /venv/bin/python script=/venv/bin/app-u E", 0},
        {{"by-env"}, "python /venv/bin/by-env /usr/bin/python3 script=/venv/bin/by-env", 0},
        {{"by-env-s"},
         "python /venv/bin/by-env-s /usr/bin/python3 script=/venv/bin/by-env-s E s",
         0},
        {{"by-env-odd"}, "starter /venv/bin/by-env-odd - unseen", 0},
        {{"long"}, "python /venv/bin/long /venv/bin/python script=/venv/bin/long", 0},
        {{"moved"}, "python /venv/bin/moved /venv/bin/python script=/venv/bin/moved", 0},
        {{"/venv/bin/shims/python3", "a.py"},
         "python /venv/bin/shims/python3 /venv/bin/shims/python3 script=/home/a.py",
         0},
        {{"env", "-", "A=1", "python3", "-m", "x"},
         "python /usr/bin/env /usr/bin/python3 module=x",
         0},
        {{"env", "-u", "A", "python3"}, "python /usr/bin/env /usr/bin/python3", 0},
        {{"env", "--no-such", "A", "python3"}, "starter /usr/bin/env - unseen", 0},
        {{"env"}, "starter /usr/bin/env -", 0},
        {{"start"}, "python /venv/bin/start /venv/bin/python script=/venv/bin/app", 0},
        {{"bare"}, "starter /venv/bin/bare -", 0},
        {{"sh", "-c", "app"}, "python /bin/sh /venv/bin/python script=/venv/bin/app", 0},
        {{"sh", "-c", "echo x; tool"}, "starter /bin/sh -", 0},
        {{"sh", "-c", "exec tool"}, "elf /bin/sh -", 0},
        {{"sh", "-c", "$x"}, "starter /bin/sh - unseen", 0},
        {{"sh"}, "starter /bin/sh - unseen", 0},
        {{"nohup", "app"}, "python /usr/bin/nohup /venv/bin/python script=/venv/bin/app", 0},
        {{"nohup", "nothing"}, "starter /usr/bin/nohup - unseen", 0},
        {{"nohup"}, "starter /usr/bin/nohup -", 0},
        {{"tool", "-m", "x"}, "elf /usr/bin/tool -", 0},
        {{"lost"}, NULL, -ENOENT},
        {{"nothing"}, NULL, -ENOENT},
        {{""}, NULL, -ENOENT},
        {{"./nothing"}, NULL, -ENOENT},
        {{"/venv/bin/plain"}, NULL, -EACCES},
        {{"plain"}, NULL, -EACCES},
        {{"/venv/bin"}, NULL, -EACCES},
        {{"/venv/bin/app/x"}, NULL, -ENOTDIR},
        {{"empty-line"}, NULL, -ENOENT},
        {{"loop"}, NULL, -ELOOP},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct launch_program p;
        size_t n = 0;
        while (n < 8 && cases[i].words[n]) {
            n++;
        }
        struct launch_command c = {cases[i].words, n, "/venv/bin:/usr/bin:/bin", "/home", NULL, 0};
        int rc = launch_program_find(&w->root, &w->a, &c, &p);
        const char *got = rc < 0 ? strerror(-rc) : shown(&w->a, &p);
        if (rc != cases[i].status || (rc == 0 && strcmp(got, cases[i].wanted) != 0)) {
            print_error("%s %s: got \"%s\", wanted \"%s\"\n", cases[i].words[0],
                        n > 1 ? cases[i].words[1] : "", got,
                        cases[i].wanted ? cases[i].wanted : strerror(-cases[i].status));
            fail();
        }
    }
}

/* execvp(3): an empty element is the working directory; without PATH /bin:/usr/bin counts. */
static void search_path(void **state)
{
    struct world *w = *state;
    static const char *const words[] = {"sh"};
    struct launch_program p;
    struct launch_command c = {words, 1, NULL, "/", NULL, 0};
    assert_int_equal(launch_program_find(&w->root, &w->a, &c, &p), 0);
    assert_string_equal(p.file, "/bin/sh");
    c = (struct launch_command){words, 1, ":/usr/bin", "/bin", NULL, 0};
    assert_int_equal(launch_program_find(&w->root, &w->a, &c, &p), 0);
    assert_string_equal(path_normal(&w->a, p.file), "/bin/sh");
    c = (struct launch_command){words, 1, "/nowhere", "/bin", NULL, 0};
    assert_int_equal(launch_program_find(&w->root, &w->a, &c, &p), -ENOENT);
    c = (struct launch_command){words, 0, "/bin", "/", NULL, 0};
    assert_int_equal(launch_program_find(&w->root, &w->a, &c, &p), -ENOENT);
}

/* What is started stands behind as many words as there are, or counts as unknown. */
static void many_words(void **state)
{
    struct world *w = *state;
    put_text(w, "/venv/bin/with", "#!/bin/sh\nexec env \"$@\"\n");
    static const struct {
        const char *first;
        size_t n;
        const char *wanted;
    } cases[] = {
        {"env", 5000, "python /usr/bin/env /usr/bin/python3 script=/home/a.py"},
        {"with", 3000, "python /venv/bin/with /usr/bin/python3 script=/home/a.py"},
        {"with", 5000, "starter /venv/bin/with - unseen"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *words[5003];
        size_t n = 0;
        words[n++] = cases[i].first;
        while (n <= cases[i].n) {
            words[n++] = "A=1";
        }
        words[n++] = "python3";
        words[n++] = "a.py";
        struct launch_command c = {words, n, "/venv/bin:/usr/bin:/bin", "/home", NULL, 0};
        struct launch_program p;
        assert_int_equal(launch_program_find(&w->root, &w->a, &c, &p), 0);
        assert_string_equal(shown(&w->a, &p), cases[i].wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(commands), cmocka_unit_test(search_path),
                                       cmocka_unit_test(many_words)};
    return cmocka_run_group_tests(tests, start, finish);
}
