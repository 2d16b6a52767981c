#include "launch/command_line.h"

#include <string.h>

/* Appends the word, within quotes, to a text with room for twice its length and three more. */
static char *put_word(char *to, const char *word)
{
    *to++ = '"';
    for (size_t slashes = 0;; word++) {
        if (*word == '\\') {
            slashes++;
            continue;
        }
        size_t n = *word == '"' ? 2 * slashes + 1 : *word ? slashes : 2 * slashes;
        memset(to, '\\', n);
        to += n;
        slashes = 0;
        if (!*word) {
            break;
        }
        *to++ = *word;
    }
    *to++ = '"';
    return to;
}

const char *launch_command_line(struct arena *a, const char *const *words, size_t n)
{
    size_t size = 1;
    if (n == 0 || strchr(words[0], '"')) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        size += 2 * strlen(words[i]) + 3;
    }
    char *line = arena_alloc(a, size), *to = line;
    for (size_t i = 0; i < n; i++) {
        bool plain = i > 0 && words[i][0] && !strpbrk(words[i], " \t\n\v\r\f\"");
        size_t length = strlen(words[i]);
        if (i > 0) {
            *to++ = ' ';
        }
        if (plain || i == 0) {
            if (i == 0) {
                *to++ = '"';
            }
            memcpy(to, words[i], length);
            to += length;
            if (i == 0) {
                *to++ = '"';
            }
        } else {
            to = put_word(to, words[i]);
        }
    }
    *to = '\0';
    return line;
}
