package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// A cluster has all that the allocator reads, and the claims that wait.
type cluster struct {
	Nodes   []v1.Node                    `json:"nodes"`
	Slices  []*resourceapi.ResourceSlice `json:"slices"`
	Classes []*resourceapi.DeviceClass   `json:"classes"`
	Claims  []*resourceapi.ResourceClaim `json:"claims"`
	Waiting []*resourceapi.ResourceClaim `json:"waiting"`
}

// An outcome has none of these where the claims cannot be allocated.
type outcome struct {
	Allocated []resourceapi.AllocationResult `json:"allocated,omitempty"`
	Error     string                         `json:"error,omitempty"`
}

// A candidate is one device alone for one device of one choice of a request.
type candidate struct {
	Node    string `json:"node"`
	Claim   string `json:"claim"`
	Request string `json:"request"`
	Driver  string `json:"driver"`
	Pool    string `json:"pool"`
	Device  string `json:"device"`
	outcome
}

// Outcomes are by node, in the order of the nodes.
type outcomes struct {
	Nodes      []outcome   `json:"nodes"`
	Candidates []candidate `json:"candidates"`
}

// The gates that kube-scheduler 1.37 has by default, as the lab's cluster runs it.
var features = structured.Features{
	AdminAccess:             true,
	ConsumableCapacity:      true,
	DeviceBindingAndStatus:  true,
	DeviceTaints:            true,
	FractionalCapacityRange: true,
	PartitionableDevices:    true,
	PrioritizedList:         true,
}

const (
	// The attribute that one device alone has, and its selector.
	mark  = "oracle.draguard.dev/only"
	alone = `"only" in device.attributes["oracle.draguard.dev"]`
)

type classes []*resourceapi.DeviceClass

func (all classes) List() ([]*resourceapi.DeviceClass, error) { return all, nil }

func (all classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range all {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("deviceclass %q not found", name)
}

func allocate(given cluster) outcomes {
	state, compiled := allocated(given.Claims), cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true})
	found := outcomes{Nodes: []outcome{}, Candidates: []candidate{}}
	for i := range given.Nodes {
		node := &given.Nodes[i]
		found.Nodes = append(found.Nodes, try(node, given.Waiting, given.Slices, given.Classes, state, compiled))
		for _, claim := range given.Waiting {
			for _, single := range choices(claim) {
				for s, slice := range given.Slices {
					for d := range slice.Spec.Devices {
						marked := append([]*resourceapi.ResourceSlice{}, given.Slices...)
						marked[s] = slice.DeepCopy()
						device := &marked[s].Spec.Devices[d]
						if device.Attributes == nil {
							device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
						}
						yes := true
						device.Attributes[mark] = resourceapi.DeviceAttribute{BoolValue: &yes}
						found.Candidates = append(found.Candidates, candidate{
							Node: node.Name, Claim: claim.Name, Request: single.name,
							Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: device.Name,
							outcome: try(node, []*resourceapi.ResourceClaim{single.claim}, marked,
								onlyMarked(given.Classes), state, compiled),
						})
					}
				}
			}
		}
	}
	return found
}

func try(node *v1.Node, waiting []*resourceapi.ResourceClaim, slices []*resourceapi.ResourceSlice,
	all classes, state structured.AllocatedState, compiled *cel.Cache) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	allocator, err := structured.NewAllocator(ctx, features, state, all, slices, compiled)
	if err != nil {
		return outcome{Error: err.Error()}
	}
	result, err := allocator.Allocate(ctx, node, waiting)
	switch {
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return outcome{} // of this node only: the scheduler goes on with the next
	case err != nil:
		return outcome{Error: err.Error()}
	}
	return outcome{Allocated: result}
}

// allocated is what the scheduler gathers of allocated claims.
func allocated(claims []*resourceapi.ResourceClaim) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			switch {
			case result.AdminAccess != nil && *result.AdminAccess:
			case result.ShareID != nil:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
				if result.ConsumedCapacity != nil {
					state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
				}
			default:
				state.AllocatedDevices.Insert(id)
			}
		}
	}
	return state
}

type choice struct {
	name  string
	claim *resourceapi.ResourceClaim
}

// choices are the claim once for each choice of each request, with one device of that alone.
func choices(claim *resourceapi.ResourceClaim) []choice {
	var found []choice
	for _, request := range claim.Spec.Devices.Requests {
		if request.Exactly != nil {
			single := *request.DeepCopy()
			single.Exactly.AllocationMode, single.Exactly.Count = resourceapi.DeviceAllocationModeExactCount, 1
			found = append(found, choice{request.Name, with(claim, single)})
		}
		for i := range request.FirstAvailable {
			single := *request.DeepCopy()
			single.FirstAvailable = single.FirstAvailable[i : i+1]
			single.FirstAvailable[0].AllocationMode = resourceapi.DeviceAllocationModeExactCount
			single.FirstAvailable[0].Count = 1
			found = append(found, choice{request.Name + "/" + single.FirstAvailable[0].Name, with(claim, single)})
		}
	}
	return found
}

func with(claim *resourceapi.ResourceClaim, request resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	single := claim.DeepCopy()
	single.Spec.Devices.Requests = []resourceapi.DeviceRequest{request}
	return single
}

// onlyMarked are the classes with a selector before all others that only the marked device meets.
func onlyMarked(all classes) classes {
	found := make(classes, 0, len(all))
	for _, class := range all {
		marked := class.DeepCopy()
		marked.Spec.Selectors = append([]resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: alone}},
		}, marked.Spec.Selectors...)
		found = append(found, marked)
	}
	return found
}
