// Prints what upstream's probe, httpGet hook and manifest client make of a server, for each request on standard input: a line of JSON with
// scheme, host, port and path. record.ts runs it.
package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	probehttp "k8s.io/kubernetes/pkg/probe/http"
)

const timeout = 5 * time.Second

type target struct {
	Scheme, Host, Path string
	Port               int
}

type verdict struct {
	Probe    string `json:"probe"`
	Output   string `json:"output"`
	Hook     bool   `json:"hook"`
	Manifest bool   `json:"manifest"`
}

// As pkg/kubelet/kubelet.go makes the client of hooks.
var hooks = &http.Client{
	Timeout:       timeout,
	Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	CheckRedirect: probehttp.RedirectChecker(false),
}

func request(t target) (*http.Request, error) {
	action := &v1.HTTPGetAction{Scheme: v1.URIScheme(t.Scheme), Host: t.Host, Port: intstr.FromInt(t.Port), Path: t.Path}
	return probehttp.NewRequestForHTTPGetAction(action, &v1.Container{}, "", "probe")
}

func probe(t target, v *verdict) {
	req, err := request(t)
	if err != nil {
		v.Probe = "invalid"
		return
	}
	result, output, err := probehttp.New(false).Probe(req, timeout)
	v.Probe = string(result)
	if err != nil {
		v.Probe = "broken body"
	} else if res := "HTTP probe failed with statuscode"; result != "failure" || len(output) > len(res) && output[:len(res)] == res {
		v.Output = output
	}
}

func hook(t target) bool {
	req, err := request(t)
	if err != nil {
		return false
	}
	defer hooks.CloseIdleConnections()
	resp, err := hooks.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	return err == nil
}

// As pkg/kubelet/config/http.go extractFromURL.
func manifest(t target) bool {
	client := &http.Client{Timeout: timeout, Transport: http.DefaultTransport.(*http.Transport).Clone()}
	defer client.CloseIdleConnections()
	resp, err := client.Get(fmt.Sprintf("http://%s:%d%s", t.Host, t.Port, t.Path))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK
}

func main() {
	log.SetOutput(io.Discard) // bytes behind a response
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var t target
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			panic(err)
		}
		var v verdict
		probe(t, &v)
		v.Hook = hook(t)
		if t.Scheme == "HTTP" {
			v.Manifest = manifest(t)
		}
		out, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(out))
	}
}
