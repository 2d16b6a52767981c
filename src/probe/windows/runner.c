/* Children on Windows: gpumend.exe itself, once for each stage (inject/probe/windows/stage.h), in a
 * job, so that what it starts ends with it, and with this process. */
#include "probe/runner.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/windows/api.h"
#include "base/windows/sys.h"
#include "inject/probe/windows/stage.h"
#include "launch/command_line.h"
#include "probe/listen.h"

enum {
    READ_BYTES = 4096,
    TICK_MS = 10,   // a pipe without a name cannot be waited for
    REAP_MS = 2000, // after the job was ended
};

struct pipe {
    HANDLE ours, theirs; // NULL: not open
};

struct child_process {
    struct pipe report, output;
    HANDLE null, job, process;
    DWORD id;
};

void probe_helper_open(struct arena *a, const char *const *env, size_t n_env,
                       struct probe_helper *ret)
{
    (void)a, (void)env, (void)n_env; // the helper is this program
    *ret = PROBE_HELPER_EMPTY;
}

void probe_helper_close(struct probe_helper *h)
{
    (void)h;
}

/* ------------------------------------------------------------------ the start */

static void handle_close(HANDLE *h)
{
    if (*h) {
        (void)CloseHandle(*h);
    }
    *h = NULL;
}

static bool pipe_open(struct pipe *p)
{
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    return CreatePipe(&p->ours, &p->theirs, &inherited, 0) &&
           SetHandleInformation(p->ours, HANDLE_FLAG_INHERIT, 0);
}

static HANDLE job_open(void)
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {
        .BasicLimitInformation = {.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE |
                                                JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION}};
    HANDLE job = CreateJobObjectW(NULL, NULL);
    if (job &&
        !SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits)) {
        handle_close(&job);
    }
    return job;
}

/* "K=V", each ended by NUL, and one more NUL; from malloc(), or NULL. */
static wchar_t *environment_block(const struct probe_child *c)
{
    size_t n = 2, at = 0;
    for (size_t i = 0; i < c->n_env; i++) {
        n += strlen(c->env[i]) + 1; // a text has no fewer bytes than it has units
    }
    wchar_t *block = calloc(n, sizeof *block);
    for (size_t i = 0; block && i < c->n_env; i++) {
        wchar_t *one = sys_wide(c->env[i]);
        size_t length = one ? wcslen(one) : 0;
        if (length) {
            memcpy(block + at, one, length * sizeof *one);
            at += length + 1;
        }
        free(one);
    }
    return block;
}

/* gpumend.exe probe --run-stage report=HANDLE ... */
static wchar_t *command_line(struct arena *a, const struct probe_child *c, const wchar_t *program,
                             HANDLE report)
{
    VEC(const char *) list = {0};
    char *name = sys_narrow(program);
    VEC_PUSH(a, &list, name ? arena_strdup(a, name) : "gpumend.exe");
    VEC_PUSH(a, &list, "probe");
    VEC_PUSH(a, &list, STAGE_WORD);
    VEC_PUSH(a, &list,
             arena_printf(a, "report=%llu", (unsigned long long)(uintptr_t)report)); // a number
    for (size_t i = 0; i < c->n_arguments; i++) {
        VEC_PUSH(a, &list, c->arguments[i]);
    }
    const char *line = launch_command_line(a, list.items, list.n);
    free(name);
    return line ? sys_wide(line) : NULL;
}

/* Inherits these handles and no others. */
static bool create(const struct child_process *p, const wchar_t *program, wchar_t *line,
                   wchar_t *environment, PROCESS_INFORMATION *ret)
{
    HANDLE inherited[] = {p->null, p->output.theirs, p->report.theirs};
    STARTUPINFOEXW info = {.StartupInfo = {.cb = sizeof info,
                                           .dwFlags = STARTF_USESTDHANDLES,
                                           .hStdInput = p->null,
                                           .hStdOutput = p->output.theirs,
                                           .hStdError = p->output.theirs}};
    SIZE_T size = 0;
    (void)InitializeProcThreadAttributeList(NULL, 1, 0, &size); // says how large the list is
    info.lpAttributeList = calloc(1, size);
    bool listed = info.lpAttributeList &&
                  InitializeProcThreadAttributeList(info.lpAttributeList, 1, 0, &size);
    bool started =
        listed &&
        UpdateProcThreadAttribute(info.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST,
                                  inherited, sizeof inherited, NULL, NULL) &&
        CreateProcessW(program, line, NULL, NULL, TRUE,
                       CREATE_SUSPENDED | CREATE_UNICODE_ENVIRONMENT | CREATE_NO_WINDOW |
                           EXTENDED_STARTUPINFO_PRESENT,
                       environment, NULL, &info.StartupInfo, ret);
    DWORD error = GetLastError();
    if (listed) {
        DeleteProcThreadAttributeList(info.lpAttributeList);
    }
    free(info.lpAttributeList);
    SetLastError(error);
    return started;
}

static bool child_start(struct arena *a, const struct probe_child *c, struct child_process *p)
{
    enum { LENGTH_MAX = 32767 };
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    PROCESS_INFORMATION child = {0};
    wchar_t *program = calloc(LENGTH_MAX + 1, sizeof *program);
    DWORD n = program ? GetModuleFileNameW(NULL, program, LENGTH_MAX) : 0;
    HANDLE null = CreateFileW(L"NUL", GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE, &inherited,
                              OPEN_EXISTING, 0, NULL);
    p->null = null == INVALID_HANDLE_VALUE ? NULL : null;
    p->job = job_open();
    bool ready =
        n && n < LENGTH_MAX && p->null && p->job && pipe_open(&p->report) && pipe_open(&p->output);
    wchar_t *line = ready ? command_line(a, c, program, p->report.theirs) : NULL;
    wchar_t *environment = ready ? environment_block(c) : NULL;
    bool started = line && environment && create(p, program, line, environment, &child);
    if (started && !AssignProcessToJobObject(p->job, child.hProcess)) {
        DWORD error = GetLastError();
        (void)TerminateProcess(child.hProcess, 1);
        SetLastError(error);
        started = false;
    }
    DWORD error = GetLastError();
    if (started) {
        (void)ResumeThread(child.hThread);
    }
    handle_close(&child.hThread);
    handle_close(&p->report.theirs);
    handle_close(&p->output.theirs);
    p->process = child.hProcess;
    p->id = child.dwProcessId;
    free(environment);
    free(line);
    free(program);
    SetLastError(error);
    return started;
}

static void child_release(struct child_process *p)
{
    HANDLE *const all[] = {&p->report.ours, &p->report.theirs, &p->output.ours, &p->output.theirs,
                           &p->null,        &p->process,       &p->job}; // the job's end ends all
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        handle_close(all[i]);
    }
}

/* ------------------------------------------------------------------ the wait */

/* Reads what is there now. */
static void drain(struct listener *l, HANDLE pipe,
                  void (*take)(struct listener *l, const char *data, size_t n))
{
    enum { TURNS_MAX = 64 }; // one that writes without end does not keep the deadline away
    char buffer[READ_BYTES];
    DWORD there = 0, n = 0;
    for (int i = 0; i < TURNS_MAX && PeekNamedPipe(pipe, NULL, 0, NULL, &there, NULL) && there &&
                    ReadFile(pipe, buffer, sizeof buffer, &n, NULL);
         i++) {
        take(l, buffer, n);
    }
}

static void drain_both(struct listener *l, const struct child_process *p)
{
    drain(l, p->report.ours, listener_take_report);
    drain(l, p->output.ours, listener_take_output);
}

/* ntstatus.h: those that say more than their number. */
static const char *exception_name(DWORD code)
{
    switch (code) {
    case EXCEPTION_ACCESS_VIOLATION: return " (access violation)";
    case EXCEPTION_ILLEGAL_INSTRUCTION: return " (illegal instruction)";
    case EXCEPTION_STACK_OVERFLOW: return " (stack overflow)";
    case EXCEPTION_INT_DIVIDE_BY_ZERO: return " (integer division by zero)";
    case 0xC0000409: return " (the program ended itself at once, STATUS_STACK_BUFFER_OVERRUN)";
    case 0xC0000374: return " (heap corruption)";
    default: return "";
    }
}

static void child_judge(struct arena *a, const struct listener *l, const struct child_process *p,
                        const struct probe_child *c, bool late, bool gone, struct probe_answer *ret)
{
    DWORD code = 0;
    if (!gone) {
        ret->left = (pid_t)p->id;
        ret->left_state = '?';
    }
    if (l->ended) {
        return; // what was said before its end counts, whatever became of it then
    }
    if (late) {
        ret->outcome = PROBE_TIMED_OUT;
        ret->text = arena_printf(a, "no answer within %g s%s%s", c->deadline_ms / 1000.0,
                                 listener_during(l), gone ? "" : "; it could not be ended");
        return;
    }
    ret->outcome = PROBE_CRASHED;
    (void)GetExitCodeProcess(p->process, &code); // a process that we hold
    ret->text = code >= 0x80000000U
                    ? arena_printf(a, "the process ended by exception 0x%08lx%s%s", code,
                                   exception_name(code), listener_during(l))
                    : arena_printf(a, "the process ended with status %lu%s and without an answer",
                                   code, listener_during(l));
}

static void child_wait(struct arena *a, const struct child_process *p, const struct probe_child *c,
                       struct probe_answer *ret)
{
    struct listener l;
    int64_t start = clock_ms();
    bool gone = false, late = false;
    listener_init(&l, a, ret);
    while (!gone && !late) {
        drain_both(&l, p);
        gone = WaitForSingleObject(p->process, TICK_MS) == WAIT_OBJECT_0;
        late = !gone && clock_ms() - start >= (int64_t)c->deadline_ms;
    }
    (void)TerminateJobObject(p->job, 1); // what is left of it, where the child itself has ended
    gone = gone || WaitForSingleObject(p->process, REAP_MS) == WAIT_OBJECT_0;
    drain_both(&l, p);
    ret->ms = (unsigned)(clock_ms() - start);
    listener_end(&l);
    child_judge(a, &l, p, c, late, gone, ret);
}

void probe_child_run(struct arena *a, const struct probe_helper *h, const struct probe_child *c,
                     struct probe_answer *ret)
{
    struct child_process p = {0};
    (void)h;
    *ret = (struct probe_answer){.outcome = PROBE_UNKNOWN};
    if (c->program) {
        ret->text = "no other program is run on Windows";
    } else if (child_start(a, c, &p)) {
        child_wait(a, &p, c, ret);
    } else {
        ret->text =
            arena_printf(a, "the stage's process could not be started (error %lu)", GetLastError());
    }
    child_release(&p);
}
