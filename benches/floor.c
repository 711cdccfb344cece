/* The least that polling can cost: one blocking process asks IMDS once a second over one connection and reads the
   answer. In C, because the runtime of another language would be part of the figure.

   floor PORT */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static char answer[1 << 22];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Reads one response with a Content-Length. */
static void read_answer(int server) {
    size_t got = 0, expected = 0;
    do {
        ssize_t more = read(server, answer + got, sizeof answer - 1 - got);
        if (more <= 0)
            fail("read");
        got += (size_t)more;
        answer[got] = 0;
        char *end = strstr(answer, "\r\n\r\n"), *length = strcasestr(answer, "\r\ncontent-length:");
        if (end && length && length < end)
            expected = (size_t)(end + 4 - answer) + strtoul(length + 17, NULL, 10);
    } while (expected == 0 || got < expected);
    if (strncmp(answer, "HTTP/1.1 200", 12) != 0)
        fail("no 200");
}

int main(int count, char **arguments) {
    if (count != 2) {
        fputs("floor PORT\n", stderr);
        return 64;
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((in_port_t)atoi(arguments[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int server = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof address) < 0)
        fail("connect");
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    static const char request[] = "GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n"
                                  "Host: 127.0.0.1\r\nMetadata: true\r\n\r\n";
    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    for (;;) {
        if (write(server, request, sizeof request - 1) != sizeof request - 1)
            fail("write");
        read_answer(server);
        due.tv_sec++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    }
}
