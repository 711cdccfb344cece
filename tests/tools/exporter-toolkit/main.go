// Serves one line on every path, with the web configuration of exporter-toolkit: what `--web.config.file` is compared
// with. With --check, only validates the file.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/prometheus/exporter-toolkit/web"
)

func main() {
	config := flag.String("web.config.file", "", "file")
	address := flag.String("web.listen-address", "127.0.0.1:0", "host:port")
	check := flag.Bool("check", false, "only validate the file")
	flag.Parse()
	if *check {
		exitWith(web.Validate(*config))
		return
	}
	listener, err := net.Listen("tcp", *address)
	exitWith(err)
	fmt.Fprintf(os.Stderr, "msg=listening address=%s\n", listener.Addr())
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "served")
	})
	noSocket := false
	flags := &web.FlagConfig{WebConfigFile: config, WebSystemdSocket: &noSocket}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	exitWith(web.Serve(listener, &http.Server{Handler: handler}, flags, logger))
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %s\n", err)
		os.Exit(1)
	}
}
