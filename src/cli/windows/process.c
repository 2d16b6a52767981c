/* What the process was given on Windows: words, environment, folder, console. */
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/windows/api.h"
#include "base/windows/sys.h"
#include "cli/cli.h"
#include "cli/replace.h"
#include "inject/probe/windows/stage.h"

#include <shellapi.h> // CommandLineToArgvW()

static UINT console_before; // the encoding of the console's output

/* The start ends where there is no memory for the words of it. */
static char *narrow(const wchar_t *text)
{
    char *bytes = sys_narrow(text);
    if (!bytes) {
        exit(cli_fail(CLI_CANNOT, "out of memory"));
    }
    return bytes;
}

/* "=C:=C:\\x", the folder of a drive, is no variable. */
void cli_env_init(struct cli_env *env, struct arena *a)
{
    wchar_t *all = GetEnvironmentStringsW();
    for (const wchar_t *at = all; at && *at; at += wcslen(at) + 1) {
        if (*at != L'=') {
            char *entry = narrow(at);
            VEC_PUSH(a, &env->vars, arena_strdup(a, entry));
            free(entry);
        }
    }
    if (all) {
        (void)FreeEnvironmentStringsW(all); // of no use any more
    }
}

/* As a path below "/": "/C:/Users". */
const char *cli_cwd(struct arena *a)
{
    wchar_t *wide = _wgetcwd(NULL, 0);
    char *cwd = wide ? narrow(wide) : NULL;
    bool drive = cwd && cwd[0] != '\\';
    char *path = drive ? arena_printf(a, "/%s", cwd) : arena_strdup(a, "/");
    for (char *at = path; *at; at++) {
        *at = *at == '\\' ? '/' : *at;
    }
    free(cwd);
    free(wide);
    return path;
}

void cli_restore_signals(void)
{
}

bool cli_is_windows(void)
{
    return true;
}

bool cli_names_process(void)
{
    return false;
}

static void restore_console(void)
{
    (void)SetConsoleOutputCP(console_before); // was valid when it was taken
}

void cli_begin(int *argc, char ***argv)
{
    int n = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &n);
    char **words = wide ? calloc((size_t)n + 1, sizeof *words) : NULL;
    for (int i = 0; words && i < n; i++) {
        words[i] = narrow(wide[i]);
    }
    if (words) {
        *argc = n;
        *argv = words;
    }
    (void)LocalFree(wide);
    if (n > 2 && words && strcmp(words[1], "probe") == 0 && strcmp(words[2], STAGE_WORD) == 0) {
        stage_main(words + 3); // a stage of a probe in a process of its own
    }
    for (int fd = 0; fd <= 2; fd++) {
        (void)_setmode(fd, _O_BINARY); // what is closed has no mode
    }
    console_before = GetConsoleOutputCP();
    if (console_before && SetConsoleOutputCP(CP_UTF8)) {
        (void)atexit(restore_console); // without it the console keeps UTF-8
    }
}

/* Only a user with a right of his own can make links here. */
int cli_redirect_output(const char *command, const char *path)
{
    bool ready = strcmp(path, "-") == 0 || freopen(path, "w", stdout);
    return ready ? CLI_OK : cli_fail(CLI_CANNOT, "%s: %s: %s", command, path, strerror(errno));
}
