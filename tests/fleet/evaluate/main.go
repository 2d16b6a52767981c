// Evaluates what gpumend prints as Kubernetes does: one JSON object a line on standard input
// {"terms": [...], "labels": {...}, "cel": "...", "driver": "550.90.7", "compute": "8.9.0"}, one
// answer a line: "true false" for the node affinity and the CEL selector; "-" where there is none.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
)

type question struct {
	Terms   []v1.NodeSelectorTerm
	Labels  map[string]string
	Cel     *string
	Driver  *string
	Compute *string
}

func affinity(q question) string {
	if q.Terms == nil {
		return "-"
	}
	selector, err := nodeaffinity.NewNodeSelector(&v1.NodeSelector{NodeSelectorTerms: q.Terms})
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprint(selector.Match(&v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: q.Labels}}))
}

func selector(q question) string {
	if q.Cel == nil || q.Driver == nil || q.Compute == nil {
		return "-"
	}
	compiled := cel.GetCompiler(cel.Features{}).CompileCELExpression(*q.Cel, cel.Options{})
	if compiled.Error != nil {
		return "error: " + compiled.Error.Error()
	}
	version := func(text *string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{VersionValue: text} }
	matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device{Driver: "gpu.nvidia.com",
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"driverVersion": version(q.Driver), "cudaComputeCapability": version(q.Compute)}})
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprint(matches)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			fmt.Println("error: "+err.Error(), "-")
			continue
		}
		fmt.Println(affinity(q) + "|" + selector(q))
	}
}
