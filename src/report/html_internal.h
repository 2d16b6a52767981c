/* What the sections of the HTML page share. */
#ifndef GPUMEND_REPORT_HTML_INTERNAL_H
#define GPUMEND_REPORT_HTML_INTERNAL_H

#include "report/html.h"

/* A long folder is named once and abbreviated below. */
struct html_folder {
    const char *path; // or NULL
    const char *name; // "<env>"
};

struct html {
    FILE *file;
    struct arena *a;
    const json_t *page, *document; // document: the page's
    const json_t *shown;           // that, or what the page shows in its place ("shown")
    bool is_windows;               // the loader is that of Windows
    struct html_folder folders[2];
};

/* Foreign text, printable and escaped. */
void html_text(const struct html *h, const char *text);

/* The same, with the long folders abbreviated. */
void html_path(const struct html *h, const char *text);

/* Members of objects: "" and an empty list where there is no such text or list. */
const char *html_member(const json_t *object, const char *key);
bool html_has(const json_t *object, const char *key); // a text that is not empty
const json_t *html_list(const json_t *object, const char *key);

/* The processes of either document: of `why` the document itself. */
size_t html_n_processes(const struct html *h);
const json_t *html_process(const struct html *h, size_t i);

/* "import torch; use torch", or the path of the program. */
void html_script(const struct html *h, const json_t *process);

const char *html_base(const char *path); // behind the last slash

void html_ladders(const struct html *h);
void html_loads(const struct html *h);
void html_tree(const struct html *h);

#endif
