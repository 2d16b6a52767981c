/* A command that waits for children and is interrupted: the end key, SIGTERM, SIGHUP. */
#ifndef GPUMEND_CLI_STOP_H
#define GPUMEND_CLI_STOP_H

/* A descriptor that is readable once this process was told to stop; -1: nothing will be heard. */
int cli_stop_listen(void);

/* Ends as the signal would have, so that a shell script ends too. */
int cli_stop_end(const char *command);

#endif
