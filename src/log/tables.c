/* Tables whose rows hold no literal of their own: the lists of pip and conda. */
#include <string.h>

#include "log/internal.h"

const char *const table_heads[TABLES] = {
    [TABLE_PIP] = "Package ",  // "Package    Version", pip list, uv pip list
    [TABLE_CONDA] = "# Name ", // "# Name    Version    Build  Channel", conda list
};

static struct str table_word(struct str *rest)
{
    while (rest->n && (rest->s[0] == ' ' || rest->s[0] == '\t')) {
        rest->s++;
        rest->n--;
    }
    struct str found = {rest->s, 0};
    while (rest->n && rest->s[0] != ' ' && rest->s[0] != '\t') {
        rest->s++;
        rest->n--;
        found.n++;
    }
    return found;
}

bool table_begins(enum log_table table, struct str line)
{
    static const char *const titles[TABLES][3] = {
        [TABLE_PIP] = {"Package", "Version", NULL}, [TABLE_CONDA] = {"#", "Name", "Version"}};
    for (size_t i = 0; i < 3 && titles[table][i]; i++) {
        if (!str_is(table_word(&line), titles[table][i])) {
            return false;
        }
    }
    return true;
}

static bool name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

enum table_row table_row(struct str line, struct str *ret_package, struct str *ret_version)
{
    enum { NAME_LONGEST = 100, VERSION_LONGEST = 60 };
    struct str rest = line, name = table_word(&rest), version = table_word(&rest);
    if (name.n && (name.s[0] == '-' || name.s[0] == '#')) {
        return TABLE_RULE;
    }
    bool fits = name.n && name.n <= NAME_LONGEST && version.n && version.n <= VERSION_LONGEST &&
                version.s[0] >= '0' && version.s[0] <= '9';
    for (size_t i = 0; fits && i < name.n; i++) {
        fits = name_byte(name.s[i]);
    }
    if (!fits) {
        return TABLE_END;
    }
    *ret_package = name;
    *ret_version = version;
    return TABLE_ROW;
}
