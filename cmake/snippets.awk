# The code blocks (```c) of a page, each in a file of its own:
#
#   awk -v prefix=DIRECTORY/NAME- -f cmake/snippets.awk PAGE
#
# makes DIRECTORY/NAME-1.c, -2.c and so on. Their first line has a compiler name the page and its
# lines.

/^```c$/ {
    inside = 1
    count++
    file = prefix count ".c"
    printf "#line %d \"%s\"\n", FNR + 1, FILENAME >file
    next
}
/^```/ {
    inside = 0
    if (file) {
        close(file)
    }
}
inside { print >file }
