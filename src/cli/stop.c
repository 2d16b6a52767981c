#include "cli/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"

/* The pipe that tells the runner; its ends are close-on-exec. */
static int stop_pipe[2] = {-1, -1};
static volatile sig_atomic_t stop_signal;
static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};

static void on_stop(int signal_number)
{
    int saved = errno;
    stop_signal = signal_number;
    ssize_t n = write(stop_pipe[1], "", 1);
    (void)n; // full: it was said before
    errno = saved;
}

/* Signals that the caller ignores (nohup) stay ignored. */
int cli_stop_listen(void)
{
    if (pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
        return -1;
    }
    for (size_t i = 0; i < sizeof stop_signals / sizeof *stop_signals; i++) {
        struct sigaction now, ours = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
        if (sigaction(stop_signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
            (void)sigaction(stop_signals[i], &ours, NULL); // cannot fail for a valid signal
        }
    }
    return stop_pipe[0];
}

int cli_stop_end(const char *command)
{
    (void)cli_finish(CLI_OK); // what was printed so far; the signal is the status
    (void)cli_fail(CLI_CANNOT, "%s: interrupted", command);
    (void)signal(stop_signal, SIG_DFL);
    (void)raise(stop_signal);
    return CLI_CANNOT;
}
