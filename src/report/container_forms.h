/* The forms of a container's settings: option lists, documents and lines (report/container.h). */
#ifndef GPUMEND_REPORT_CONTAINER_FORMS_H
#define GPUMEND_REPORT_CONTAINER_FORMS_H

#include <jansson.h>

#include "container/settings.h"

struct report_option {
    const char *flag; // NULL: the value stands alone; with "=" at its end they are one word
    const char *value, *reason;
};
typedef VEC(struct report_option) report_options;

/* "docker run --rm", or NULL: the form is no command. */
const char *report_form_start(enum container_format format);

/* "env NAME=VALUE " before a command that takes no variables as options; "" */
const char *report_form_before(struct arena *a, const struct container_settings *s,
                               enum container_format format);

/* The end of a command: the image, and the program for forms that do not start the image's. */
const char *report_form_end(struct arena *a, const struct container_settings *s,
                            enum container_format format);

/* What stands between that and the image; for other forms what they ask for, without flags. */
report_options report_form_options(struct arena *a, const struct container_settings *s,
                                   enum container_format format);
const char *report_option_text(struct arena *a, const struct report_option *o);

/* An array of YAML's documents, or of one of JSON; NULL: the form is none. The caller's. */
json_t *report_form_documents(struct arena *a, const struct container_settings *s,
                              enum container_format format);

/* The text of a unit or of a configuration, or NULL. */
const char *report_form_lines(struct arena *a, const struct container_settings *s,
                              enum container_format format);

/* A trial as a line of a shell. */
const char *report_form_trial(struct arena *a, const struct container_settings *s,
                              enum container_format format, const struct container_trial *trial);

/* How a document comes into force and out of it again; values NULL for commands. */
void report_form_use(struct arena *a, const struct container_settings *s,
                     enum container_format format, struct container_item *ret_start,
                     struct container_item *ret_undo);

#endif
