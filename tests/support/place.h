/**
 * @file place.h
 * A directory of a test's own in which contexts make theirs, and what is to be known of it.
 */
#ifndef TESTS_PLACE_H
#define TESTS_PLACE_H

#include <stddef.h>

/** Room for a path in a place. */
#define PLACE_PATH_SIZE 512

/* Makes an empty directory with mode 0700. */
void place_make(char out_path[64]);

/* Removes it, and fails the test when something was left in it. */
void place_remove(const char *path);

/* How many entries a directory has. */
size_t place_count(const char *path);

/* "<place>/<name>"; returns out. */
char *place_join(const char *place, const char *name, char out[PLACE_PATH_SIZE]);

/* Whether anything is at a path; symbolic links are not followed. */
int place_has(const char *path);

/* Listens at a path as a plain program would; returns the descriptor. Closed, it leaves its file.
 */
int place_listen(const char *path);

/* Makes a regular file with some text in it. */
void place_write(const char *path, const char *text);

#endif /* TESTS_PLACE_H */
