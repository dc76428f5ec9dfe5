// Upstream's own tests of the workload controllers, of nodes and of kubectl, as one program: the equivalent of `go test -c` for
// k8s.io/kubernetes/test/e2e with the tests of sig-apps, sig-cli and sig-node and those that it shares with upstream's node suite, but
// without the suite's checks of nodes and system pods at the start. The module also builds upstream's kubelet and agnhost, whose packages
// cannot be imported.
//
// Source: k8s.io/kubernetes/test/e2e/e2e_test.go handleFlags, TestMain; e2e.go RunE2ETests.
package main

import (
	"flag"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/testinit" // registers its flags
	_ "k8s.io/kubernetes/test/e2e/apps"     // registers its tests
	_ "k8s.io/kubernetes/test/e2e/common/node"
	_ "k8s.io/kubernetes/test/e2e/common/storage"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init" // reports the state of the namespace after a failed test
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	_ "k8s.io/kubernetes/test/e2e/kubectl"
	_ "k8s.io/kubernetes/test/e2e/node"
	testingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	"k8s.io/kubernetes/test/fixtures"
)

// suite implements the methods that ginkgo calls on a *testing.T.
type suite struct{}

func (suite) Fail() {}

func main() {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(testingmanifests.GetE2ETestingManifestsFS())
	testfiles.AddFileSource(fixtures.GetTestFixturesFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	logs.InitLogs()
	gomega.RegisterFailHandler(framework.Fail)
	suiteConfig, reporterConfig := framework.CreateGinkgoConfig()
	passed := ginkgo.RunSpecs(suite{}, "Kubernetes e2e suite", suiteConfig, reporterConfig)
	logs.FlushLogs()
	if !passed {
		os.Exit(1)
	}
}
