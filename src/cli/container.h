/* The parts of `gpumend container`. */
#ifndef GPUMEND_CLI_CONTAINER_H
#define GPUMEND_CLI_CONTAINER_H

#include "cli/cli.h"
#include "cli/target.h"
#include "cdi/files.h"
#include "image/image.h"
#include "diag/finding.h"
#include "report/check.h"

struct cli_container_cdi {
    const char *host, *folder;
    bool is_folder; // it was stated
    bool json, check, refresh, write;
};

/* Returns the exit status. */
int cli_container_cdi(struct arena *a, const struct cli_container_cdi *q);

/* What a look at an image, or at what is to be packed into one, saw. */
struct container_seen {
    struct cli_target *t;
    struct model_target target;
    struct diag_report report;
    struct report_target shown;
    const struct image *image; // NULL: a folder, or a target of this machine
    struct arena *arena;       // of a pass over an image, which ends with it; NULL: it lives longer
};

/* What is made of it. An image is looked at until all that is asked of it has been read, so judge()
 * is called in each pass and reads all that print() will read; print() gives the exit status. It
 * may take the arena over, and leaves an empty one then. */
struct container_use {
    void (*judge)(void *arg, struct container_seen *s);
    int (*print)(void *arg, struct container_seen *s);
};

/* The image that is looked at. */
struct cli_container_image {
    const char *given; // an archive, a layout, a folder, a name of an engine's storage; NULL: none
    const char *platform; // "linux/arm64"; NULL: the host's
    bool no_verify;       // digests are not checked
    bool for_cpu;         // the program is to compute on the CPU
};

/* Looks at TARGET in the image, or at TARGET itself. Returns the exit status. */
int cli_container_look(struct cli_target *t, const struct cli_container_image *image,
                       const struct container_use *use, void *arg);

/* `container check IMAGE [TARGET]`, on the host in t->asked; with `report`, as a report to paste.
 * Returns the exit status. */
int cli_container_check(struct cli_target *t, const struct cli_container_image *image, bool report);

#endif
