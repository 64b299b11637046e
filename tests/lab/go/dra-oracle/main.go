// Command dra-oracle says what Kubernetes' own code makes of a CEL selector and a device, or (with the
// argument "allocate") of a cluster and a claim: a line of JSON in, a line out. Tests ask it what ours
// has to answer.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// A question has an expression and one device, as ResourceSlices have it.
type question struct {
	Expression string             `json:"expression"`
	Driver     string             `json:"driver"`
	Device     resourceapi.Device `json:"device"`
}

// An answer has one of these.
type answer struct {
	Matches *bool  `json:"matches,omitempty"`
	Compile string `json:"compile,omitempty"`
	Error   string `json:"error,omitempty"`
}

const longest = 1 << 26

func main() {
	if len(os.Args) > 1 && os.Args[1] == "allocate" {
		each(allocate)
		return
	}
	compiled := map[string]cel.CompilationResult{}
	// Those of a cluster with the gates of 1.37.
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	each(func(posed question) answer {
		expression, known := compiled[posed.Expression]
		if !known {
			expression = compiler.CompileCELExpression(posed.Expression, cel.Options{})
			compiled[posed.Expression] = expression
		}
		return reply(expression, posed)
	})
}

// each answers every line of the input by one of the output.
func each[In, Out any](answer func(In) Out) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, longest), longest)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var posed In
		if err := json.Unmarshal(lines.Bytes(), &posed); err != nil {
			fmt.Fprintln(os.Stderr, "dra-oracle:", err)
			os.Exit(1)
		}
		if err := out.Encode(answer(posed)); err != nil {
			os.Exit(1)
		}
	}
	if lines.Err() != nil {
		fmt.Fprintln(os.Stderr, "dra-oracle:", lines.Err())
		os.Exit(1)
	}
}

func reply(expression cel.CompilationResult, posed question) answer {
	if expression.Error != nil {
		return answer{Compile: expression.Error.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	matches, _, err := expression.DeviceMatches(ctx, cel.Device{
		Driver:                   posed.Driver,
		AllowMultipleAllocations: posed.Device.AllowMultipleAllocations,
		Attributes:               posed.Device.Attributes,
		Capacity:                 posed.Device.Capacity,
	})
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Matches: &matches}
}
