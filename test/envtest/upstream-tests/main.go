// Upstream's own tests of the workload controllers, of nodes and of kubectl, as one program: what `go test -c` would make of
// k8s.io/kubernetes/test/e2e, with the tests of sig-apps, sig-cli and sig-node and those that upstream's node suite has in common with it,
// and without that suite's look at nodes and system pods. The module builds upstream's kubelet and agnhost, too, whose packages cannot
// be imported.
//
// Source: k8s.io/kubernetes/test/e2e/e2e_test.go handleFlags, TestMain; e2e.go RunE2ETests.
package main

import (
	"flag"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/testinit" // its flags.
	_ "k8s.io/kubernetes/test/e2e/apps"     // the tests.
	_ "k8s.io/kubernetes/test/e2e/common/node"
	_ "k8s.io/kubernetes/test/e2e/common/storage"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init" // what a failed test finds in its namespace.
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	_ "k8s.io/kubernetes/test/e2e/kubectl"
	_ "k8s.io/kubernetes/test/e2e/node"
	testingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	"k8s.io/kubernetes/test/fixtures"
)

// suite is what ginkgo wants of a *testing.T.
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
