/* Inside this room: the text that is being read. Bytes come in (log.c), the lines among them that
 * may show something are found (scan.c), and what each shows is taken from it (take.c). */
#ifndef GPUMEND_LOG_READING_H
#define GPUMEND_LOG_READING_H

#include "log/internal.h"

/* The sieve comes behind that many bytes of lines: fuzzing has fewer, as its inputs are small. */
#ifndef LOG_KEPT_BYTES
#define LOG_KEPT_BYTES (16 << 10)
#endif

enum {
    BUFFER_BYTES = 512 << 10,
    SEGMENT_MAX = 64 << 10,      // bytes between two line ends that are looked at together
    OVERLAP = 256,               // of two pieces of one line
    HEAD_BYTES = 256,            // by which the encoding is known
    VALUE_MAX = 400,             // bytes of a field
    KEPT_BYTES = LOG_KEPT_BYTES, // of a text whose words are looked at if no rule knows it
    KEPT_LINES = 2048,
};

enum encoding { ENCODING_UNKNOWN, ENCODING_BYTES, ENCODING_UTF16LE, ENCODING_UTF16BE };

/* The fields of one match; values are cut to what fits. */
struct fields {
    struct log_field items[LOG_FIELDS_MAX + LOG_GROUPS_MAX];
    size_t n;
    char values[LOG_GROUPS_MAX][VALUE_MAX + 1];
};

struct log {
    struct log_rules *rules;
    struct log_store store;
    char *buffer; // text that is not looked at yet
    size_t n;
    char *clean;    // one segment, made plain
    char *utf8;     // one piece, made UTF-8 where it is not
    uint64_t line;  // number of the line that the buffer begins with
    bool ended;     // nothing more is fed
    bool pinned;    // it was one line of another text, and its lines have that one's number
    uint64_t inner; // lines of texts inside JSON lines, beyond the first of each text
    uint64_t bytes;
    uint64_t *hits;            // a bit for each signature, table and screen
    uint64_t *literals;        // a bit for each that began a word somewhere, until there is a sieve
    const struct sieve *sieve; // NULL: until enough lines were kept, each literal counts
    struct sieve_line sifted;
    struct spent spent; // once there is a sieve
    uint64_t n_known;   // lines that know_line() read
    uint64_t *passed;   // of each owner: the last of them that is not worth a look for it
    bool sifting;       // the line is, of which `sifted` tells
    bool is_new;        // log_line_is_known() found a fact that would be kept
    bool named;         // a watched literal of the sieve began a word, or one of `literals` did
    enum encoding encoding;
    unsigned char head[HEAD_BYTES]; // until the encoding is known
    size_t n_head;
    uint16_t high; // first half of a surrogate pair, or 0
    int odd;       // first byte of a UTF-16 unit, or -1
    enum log_table table;
    unsigned rows;
    struct log_screen_state screen;
    struct log_regex *refuted_by; // of a fact in the last line or the one before; NULL: of none
    size_t asked;                 // index of that fact
    uint64_t answered;            // place of the next line, or 0
    char *whole;                  // the text, or its first KEPT_BYTES
    size_t n_whole;
    bool is_long;
    bool noted;           // a person wrote about what happened
    struct fields fields; // of the match that is looked at: too much to clear for each
    char *hit;            // the first lines with a literal, each with a line end
    size_t n_hit;
    uint64_t *hit_lines; // their numbers
    size_t n_hit_lines;
    bool hit_is_full;
};

/* What a text between two line ends shows. */
void log_take_segment(struct log *l, const char *text, size_t n);

/* What the fields of an issue form show, whose labels stand above their values. At the end. */
void log_take_form(struct log *l);

/* Whether a signature finds nothing in a line but facts that there are enough of. The line is one
 * plain text of one process; there is a sieve. */
bool log_line_is_known(struct log *l, size_t index, const struct log_line *line);

/* Whether the next line counts whatever it is: below the head of a table or a screen each does, and
 * below a question the next one. */
bool log_reads_on(const struct log *l);

/* Looks at all lines of text[0, end), which ends with a line end unless it is the last or the line
 * is too long. */
void log_scan(struct log *l, const char *text, size_t end);

/* Looks at the whole lines of the buffer and makes room in it. */
void log_scan_buffer(struct log *l);

/* Whether a line named what the rules are about. */
bool log_names_subject(const struct log *l);

#endif
