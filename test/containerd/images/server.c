/*
 * A small program for test pods.
 *
 *   server                     answers any HTTP request on $PORT (8080) with "<$VERSION> <hostname>"; SIGTERM: exit 0
 *   server stubborn            the same, but SIGTERM is only noted
 *   server exit CODE [MS]      writes one line to each stream and ends, after MS milliseconds
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void end(int number) {
  (void)number;
  static const char text[] = "got SIGTERM, ending\n";
  if (write(1, text, sizeof text - 1) < 0) _exit(1);
  _exit(0);
}

static void note(int number) {
  (void)number;
  static const char text[] = "got SIGTERM, staying\n";
  if (write(1, text, sizeof text - 1) < 0) _exit(1);
}

static const char *setting(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value && *value ? value : otherwise;
}

static int serve(void) {
  const int port = atoi(setting("PORT", "8080"));
  const char *version = setting("VERSION", "v0");
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 64) < 0) {
    perror("listen");
    return 1;
  }
  printf("%s listening on %d\n", version, port);
  fflush(stdout);
  for (;;) {
    const int client = accept(listener, 0, 0);
    if (client < 0) continue;
    char request[4096], body[512], answer[1024];
    if (read(client, request, sizeof request) > 0) {
      const int length = snprintf(body, sizeof body, "%s %s\n", version, host);
      const int size = snprintf(answer, sizeof answer,
                                "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", length, body);
      if (write(client, answer, (size_t)size) < 0) perror("write");
    }
    close(client);
  }
}

int main(int count, char **words) {
  const char *mode = count > 1 ? words[1] : "serve";
  if (strcmp(mode, "exit") == 0) {
    printf("ending with %s\n", count > 2 ? words[2] : "0");
    fflush(stdout);
    fprintf(stderr, "goodbye\n");
    if (count > 3) usleep((useconds_t)atoi(words[3]) * 1000u);
    return count > 2 ? atoi(words[2]) : 0;
  }
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = strcmp(mode, "stubborn") == 0 ? note : end;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, 0);
  return serve();
}
