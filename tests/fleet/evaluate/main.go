// Evaluates what gpumend prints as Kubernetes does: one JSON object a line on standard input
// {"terms": [...], "labels": {...}, "cel": "...", "driver": "550.90.7", "compute": "8.9.0", "memory": "23040Mi"}, one
// answer a line: "true|false" for the node affinity and the CEL selector; "-" where there is none. With
// arguments, decodes these manifests into the types of the API instead. With "--admit POLICY" in front, says of
// each manifest whether that ValidatingAdmissionPolicy admits it, by cel-go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"sigs.k8s.io/yaml"
)

type question struct {
	Terms   []v1.NodeSelectorTerm
	Labels  map[string]string
	Cel     *string
	Driver  *string
	Compute *string
	Memory  *string
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
	capacity := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	if q.Memory != nil {
		capacity["memory"] = resourceapi.DeviceCapacity{Value: resource.MustParse(*q.Memory)}
	}
	matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device{Driver: "gpu.nvidia.com", Capacity: capacity,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"driverVersion": version(q.Driver), "cudaComputeCapability": version(q.Compute)}})
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprint(matches)
}

// decode reads a manifest into the API's own type, which must have each of its fields.
func decode(path string) error {
	whole, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, text := range strings.Split(string(whole), "\n---\n") {
		if err := decodeOne([]byte(text)); err != nil {
			return err
		}
	}
	return nil
}

func decodeOne(text []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return err
	}
	types := map[string]any{"apps/v1 DaemonSet": &appsv1.DaemonSet{}, "batch/v1 Job": &batchv1.Job{},
		"v1 Namespace": &v1.Namespace{}, "resource.k8s.io/v1 ResourceClaimTemplate": &resourceapi.ResourceClaimTemplate{},
		"resource.k8s.io/v1 ResourceClaim":                                 &resourceapi.ResourceClaim{},
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":        &admissionv1.ValidatingAdmissionPolicy{},
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": &admissionv1.ValidatingAdmissionPolicyBinding{}}
	object := types[kind.APIVersion+" "+kind.Kind]
	if object == nil {
		return fmt.Errorf("%s %s is not known here", kind.APIVersion, kind.Kind)
	}
	return yaml.UnmarshalStrict(text, object)
}

// admits evaluates the policy's variables and validations over the manifest.
func admits(policyPath, path string) (string, error) {
	var policy admissionv1.ValidatingAdmissionPolicy
	var object map[string]any
	whole, err := os.ReadFile(policyPath)
	if err != nil {
		return "", err
	}
	if err := yaml.UnmarshalStrict([]byte(strings.Split(string(whole), "\n---\n")[0]), &policy); err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if err := yaml.Unmarshal(text, &object); err != nil {
		return "", err
	}
	env, err := celgo.NewEnv(celgo.Variable("object", celgo.DynType), celgo.Variable("variables", celgo.DynType))
	if err != nil {
		return "", err
	}
	variables := map[string]any{}
	evaluate := func(expression string) (any, error) {
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			return nil, issues.Err()
		}
		program, err := env.Program(ast)
		if err != nil {
			return nil, err
		}
		value, _, err := program.Eval(map[string]any{"object": object, "variables": variables})
		if err != nil {
			return nil, err
		}
		return value.Value(), nil
	}
	for _, v := range policy.Spec.Variables {
		if variables[v.Name], err = evaluate(v.Expression); err != nil {
			return "", err
		}
	}
	for _, v := range policy.Spec.Validations {
		value, err := evaluate(v.Expression)
		if err != nil || value != true {
			return "refused", err
		}
	}
	return "admitted", nil
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == "--admit" {
		for _, path := range os.Args[3:] {
			answer, err := admits(os.Args[2], path)
			fmt.Println(strings.TrimSpace(path), answer, err)
		}
		return
	}
	for _, path := range os.Args[1:] {
		fmt.Println(strings.TrimSpace(path), decode(path))
	}
	if len(os.Args) > 1 {
		return
	}
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
