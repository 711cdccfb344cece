// pod-security says whether the pods of DaemonSets meet a Pod Security Standard, by the code of Kubernetes' admission:
//
//	pod-security privileged|baseline|restricted <MANIFEST
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	apps "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string, manifest io.Reader) error {
	if len(arguments) != 1 {
		return errors.New("usage: pod-security privileged|baseline|restricted <MANIFEST")
	}
	level, err := api.ParseLevel(arguments[0])
	if err != nil {
		return err
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	pods := 0
	decoder := yaml.NewYAMLOrJSONDecoder(manifest, 4096)
	for {
		var daemonSet apps.DaemonSet
		if err := decoder.Decode(&daemonSet); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if daemonSet.Kind != "DaemonSet" {
			continue
		}
		pods++
		template := daemonSet.Spec.Template
		results := evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &template.ObjectMeta, &template.Spec)
		if result := policy.AggregateCheckResults(results); !result.Allowed {
			return fmt.Errorf("%s does not meet %s: %s", daemonSet.Name, level, result.ForbiddenDetail())
		}
	}
	if pods == 0 {
		return errors.New("no DaemonSet")
	}
	return nil
}
