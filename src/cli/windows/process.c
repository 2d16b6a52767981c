/* What the process was given on Windows: words, environment, folder, console. */
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* The file of an option and what becomes of it at the end: output is kept in a file beside it,
 * which goes with the process, until it is whole. */
static struct {
    wchar_t *path;
    int kept;
} redirected;

static void copy_output(void)
{
    char bytes[1 << 14];
    int n = 0;
    if (fflush(stdout) != 0 || _lseeki64(redirected.kept, 0, SEEK_END) <= 0 ||
        _lseeki64(redirected.kept, 0, SEEK_SET) < 0) {
        return; // nothing was written
    }
    FILE *file = _wfopen(redirected.path, L"wb");
    while (file && (n = _read(redirected.kept, bytes, sizeof bytes)) > 0 &&
           fwrite(bytes, 1, (size_t)n, file) == (size_t)n) {
    }
    bool is_whole = file && n == 0 && !ferror(file);
    if (file) {
        is_whole &= fclose(file) == 0;
    }
    if (!is_whole) {
        char *path = sys_narrow(redirected.path);
        (void)_wunlink(redirected.path); // may stay: that is said
        _exit(cli_fail(CLI_CANNOT, "%s: cannot be written", path ? path : "the output"));
    }
}

/* Only a user with a right of his own can make links here. */
int cli_redirect_output(const char *command, const char *path)
{
    if (strcmp(path, "-") == 0) {
        return CLI_OK;
    }
    size_t n = strlen(path) + sizeof ".gpumend-4294967295";
    char *beside = malloc(n);
    redirected.path = sys_wide(path);
    wchar_t *wide = NULL;
    if (beside) {
        (void)snprintf(beside, n, "%s.gpumend-%lu", path, GetCurrentProcessId());
        wide = sys_wide(beside);
    }
    free(beside);
    redirected.kept =
        wide && redirected.path
            ? _wopen(wide, _O_RDWR | _O_CREAT | _O_EXCL | _O_TEMPORARY | _O_BINARY | _O_NOINHERIT,
                     _S_IREAD | _S_IWRITE)
            : -1;
    free(wide);
    bool ready = redirected.kept >= 0 && _dup2(redirected.kept, 1) == 0 && atexit(copy_output) == 0;
    return ready ? CLI_OK : cli_fail(CLI_CANNOT, "%s: %s: %s", command, path, strerror(errno));
}
