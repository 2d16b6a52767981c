#include "log/shells.h"

#include <string.h>

#include "base/str.h"

/* What only a POSIX shell reads outside "...": to the command prompt, ";" and "'" are letters. */
static const char *const posix_only[] = {
    "$(", "export ", "unset ", "sudo ", "; ", " | ", "'", "ls -", "find /",
};

/* The command without its "..." parts. */
static const char *unquoted(struct arena *a, const char *command)
{
    char *bare = arena_array(a, strlen(command) + 1, 1), *end = bare;
    bool quoted = false;
    for (const char *p = command; *p; p++) {
        quoted ^= *p == '"';
        if (!quoted) {
            *end++ = *p;
        }
    }
    return bare;
}

static bool is_posix(struct arena *a, const char *command)
{
    const char *bare = unquoted(a, command);
    for (size_t i = 0; i < sizeof posix_only / sizeof *posix_only; i++) {
        if (strstr(i ? bare : command, posix_only[i])) {
            return true;
        }
    }
    return false;
}

/* Variables, or their values, that mean nothing to a program of Windows: of Linux' loader, AMD's
 * runtime for Linux, NCCL, containers and macOS; PyTorch's expandable segments
 * (c10/cuda/CUDAAllocatorConfig.cpp). */
static const char *const not_of_windows[] = {
    "LD_", "HSA_", "NCCL_", "NVIDIA_VISIBLE", "PYTORCH_ENABLE_MPS", "expandable_segments"};

static bool is_of_windows(struct str assignment)
{
    for (size_t i = 0; i < sizeof not_of_windows / sizeof *not_of_windows; i++) {
        if (str_find(assignment, not_of_windows[i]) < assignment.n) {
            return false;
        }
    }
    return true;
}

/* NAME=VALUE of a POSIX shell as PowerShell sets it. NULL: a value that is expanded, that is a
 * path, or that is empty, with which PowerShell removes the variable. */
static const char *powershell_assignment(struct arena *a, struct str word)
{
    struct str whole = word, name = str_cut(&word, '=');
    bool is_quoted = word.n >= 2 && word.s[0] == '"' && word.s[word.n - 1] == '"';
    struct str value = is_quoted ? (struct str){word.s + 1, word.n - 2} : word;
    bool good = name.n && value.n && value.s[0] != '/' && is_of_windows(whole);
    for (size_t i = 0; good && i < name.n; i++) {
        good = str_is_letter(name.s[i]) || name.s[i] == '_' || (i && str_is_digit(name.s[i]));
    }
    for (size_t i = 0; good && i < value.n; i++) {
        bool is_plain =
            str_is_letter(value.s[i]) || str_is_digit(value.s[i]) || strchr("_.,:+-/=", value.s[i]);
        good = is_plain || (is_quoted && strchr("; ", value.s[i]));
    }
    return good ? arena_printf(a, "$env:" STR_FMT " = \"" STR_FMT "\"", STR_ARG(name),
                               STR_ARG(value))
                : NULL;
}

/* The first word, with the blanks inside its "...". */
static struct str first_word(struct str text)
{
    size_t end = 0;
    for (bool quoted = false; end < text.n && (quoted || text.s[end] != ' '); end++) {
        quoted ^= text.s[end] == '"';
    }
    return (struct str){text.s, end};
}

/* "export A=1 B=2" and "A=1 B=2 program" for PowerShell. NULL: something else. */
static const char *powershell_variables(struct arena *a, const char *command)
{
    static const char word[] = "export ";
    bool is_export = strncmp(command, word, sizeof word - 1) == 0;
    struct str rest = str_trim(str_of(command + (is_export ? sizeof word - 1 : 0)));
    const char *done = NULL;
    while (rest.n) {
        struct str first = first_word(rest);
        const char *one = powershell_assignment(a, first);
        if (!one) {
            const char *program = str_dup(a, rest);
            bool is_program = done && !is_export && str_find_char(first, '=') == first.n &&
                              !is_posix(a, program) && !strstr(program, "&&");
            return is_program ? arena_printf(a, "%s; %s", done, program) : NULL;
        }
        done = done ? arena_printf(a, "%s; %s", done, one) : one;
        rest = str_trim((struct str){rest.s + first.n, rest.n - first.n});
    }
    return is_export ? done : NULL;
}

const char *log_windows_command(struct arena *a, const char *command)
{
    const char *comment = strstr(command, "   # ");
    if (comment) {
        command = arena_printf(a, "%.*s", (int)(comment - command), command);
    }
    const char *variables = powershell_variables(a, command);
    struct str first = first_word(str_of(command));
    if (variables || is_posix(a, command) || str_find_char(first, '=') < first.n) {
        return variables;
    }
    if (!strstr(unquoted(a, command), " && ")) {
        return command;
    }
    return strchr(command, '"') ? NULL : arena_printf(a, "cmd.exe /c \"%s\"", command);
}

/* NAME=$(...) or NAME="$(...)" as a command. */
static bool is_assignment(struct str s)
{
    size_t n = 0;
    while (n < s.n && (str_is_letter(s.s[n]) || s.s[n] == '_')) {
        n++;
    }
    struct str value = {s.s + n, s.n - n};
    return n && (str_starts(value, "=$(") || str_starts(value, "=\"$("));
}

bool log_is_for_sh(const char *command)
{
    static const char *const signs[] = {"${", "$((", "; do ", ". /etc/os-release"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (strstr(command, signs[i])) {
            return true;
        }
    }
    bool assigns = false;
    struct str rest = str_of(command);
    while (!assigns && rest.n) {
        assigns = is_assignment(str_trim(rest));
        (void)str_cut(&rest, ';');
    }
    return assigns;
}

bool log_is_powershell(const char *command)
{
    return command && strncmp(command, "$env:", 5) == 0;
}
