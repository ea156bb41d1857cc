/**
 * @file place.c
 * See place.h.
 */
#include "place.h"

#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

void place_make(char out_path[64])
{
    (void)snprintf(out_path, 64, "%s/evzmq-place-XXXXXX", P_tmpdir);
    assert_non_null(mkdtemp(out_path));
}

void place_remove(const char *path)
{
    if (place_count(path) != 0) {
        DIR *const directory = opendir(path);

        for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
            print_error("left in %s: %s\n", path, entry->d_name);
        }
        (void)closedir(directory);
    }
    assert_ok(rmdir(path));
}

size_t place_count(const char *path)
{
    DIR *const directory = opendir(path);
    size_t count = 0;

    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    (void)closedir(directory);
    return count;
}

char *place_join(const char *place, const char *name, char out[PLACE_PATH_SIZE])
{
    const int length = snprintf(out, PLACE_PATH_SIZE, "%s/%s", place, name);

    assert_true(length > 0 && length < PLACE_PATH_SIZE);
    return out;
}

int place_has(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0;
}

int place_listen(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_true(listener >= 0 && strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path));
    assert_ok(bind(listener, (const struct sockaddr *)&address, sizeof address));
    assert_ok(listen(listener, 8));
    return listener;
}

void place_write(const char *path, const char *text)
{
    FILE *const file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}
