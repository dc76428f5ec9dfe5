// A Kubernetes control plane in one file: the name it is started under says which component it is,
// as in busybox. One link instead of six, and the six share most of their code.
//
// Each case does what the main function of that component does upstream (cmd/<name>, etcd's server/main.go and etcdutl/ctl.go).
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJob time zones, on machines without a zone database.

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // exec and OIDC credentials in kubeconfigs.
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json.
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's metrics on /metrics.
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info.
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "etcdutl": // of its commands the one that restores a backup.
		root := &cobra.Command{Use: name}
		root.AddCommand(etcdutl.NewSnapshotCommand())
		if err := root.Execute(); err != nil {
			os.Exit(1)
		}
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kubectl":
		_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)) // before cobra parses: plugins and kuberc log too.
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			util.CheckErr(err)
		}
	default:
		fmt.Fprintf(os.Stderr, "%s: start me as etcd, etcdutl, kube-apiserver, kube-controller-manager, kube-scheduler or kubectl\n", name)
		os.Exit(2)
	}
}
