#include "cli/progress.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/terminal.h"

enum { EACH_US = 500000 };

static struct {
    const char *volatile step; // NULL: nothing may be drawn
    volatile sig_atomic_t ticks;
} progress;

static size_t append(char *line, size_t n, size_t size, const char *text)
{
    for (; *text && n < size; text++) {
        line[n++] = *text;
    }
    return n;
}

/* In a signal handler: nothing but write() may be called. */
static void draw(int signal_number)
{
    char line[160], digits[16];
    size_t n = 0, at = sizeof digits;
    int saved = errno;
    const char *step = progress.step;
    (void)signal_number;
    if (step) {
        progress.ticks = progress.ticks + 1;
        digits[--at] = '\0';
        for (int s = progress.ticks / 2; s > 0 || at == sizeof digits - 1; s /= 10) {
            digits[--at] = (char)('0' + s % 10);
        }
        n = append(line, n, sizeof line, "\r");
        n = append(line, n, sizeof line, step);
        n = append(line, n, sizeof line, " (");
        n = append(line, n, sizeof line, digits + at);
        n = append(line, n, sizeof line, " s)\033[K");
        ssize_t written = write(STDERR_FILENO, line, n);
        (void)written; // it only reports
    }
    errno = saved;
}

static void timer_set(unsigned us)
{
    struct itimerval timer = {.it_interval.tv_usec = us, .it_value.tv_usec = us};
    (void)setitimer(ITIMER_REAL, &timer, NULL); // this cannot fail for valid arguments
}

void cli_progress_begin(const char *step)
{
    struct terminal t;
    struct sigaction action = {.sa_handler = draw, .sa_flags = SA_RESTART};
    if (!terminal_of(stderr, &t) || !t.colours) {
        return;
    }
    (void)sigaction(SIGALRM, &action, NULL); // this cannot fail for a valid signal
    progress.ticks = 0;
    progress.step = step;
    timer_set(EACH_US);
}

void cli_progress_step(const char *step)
{
    if (progress.step) {
        progress.step = step;
    }
}

void cli_progress_end(void)
{
    if (!progress.step) {
        return;
    }
    progress.step = NULL;
    timer_set(0);
    if (progress.ticks) {
        fputs("\r\033[K", stderr);
        (void)fflush(stderr); // as above
    }
}
