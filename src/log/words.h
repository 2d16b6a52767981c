/*
 * The weights of words: shared by their decoder (words_model.c) and the judge of a text (words.c).
 */
#ifndef GPUMEND_LOG_WORDS_H
#define GPUMEND_LOG_WORDS_H

enum {
    CLASSES_MAX = 64,
    SIGNS_MAX = 64,
};

struct word {
    const char *text;
    float idf;
    int16_t *weights; // of each class
};

struct words {
    const char *classes[CLASSES_MAX];
    double bias[CLASSES_MAX];
    size_t n_classes;
    double enough, sure, steps;
    const char
        *signs[SIGNS_MAX]; // parts of lines; a text about a failure has one of them, or a note
    size_t n_signs;
    struct word *rows;
    size_t n_rows;
    uint32_t *table; // open addressing: index of a row + 1
    size_t cap;
};

/* The row of a word, or NULL. */
const struct word *log_word_find(const struct words *w, const char *text, size_t n);

#endif
