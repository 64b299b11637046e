// The DRA driver of the node lab, on Kubernetes' own kubeletplugin helper. It
// publishes the ResourceSlices of a file that the simulator writes, and
// prepares claims with CDI files. It reads the file again when it changes.
//
// -devices is JSON: {"slices": [ResourceSlice...], "edits": {device: CDI
// containerEdits}, "failure": why it cannot start}. A device without edits is a partition that must first be
// made: the program of -partition is run as `PROGRAM prepare DEVICE`, prints
// the edits, and is run as `PROGRAM unprepare DEVICE` at the end.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
)

const (
	cdiVersion = "0.6.0"
	kind       = "gpu.draguard.dev/claim"
	// What is looked at is one small file.
	period = 200 * time.Millisecond
)

type published struct {
	Slices []resourceapi.ResourceSlice `json:"slices"`
	Edits  map[string]json.RawMessage  `json:"edits"`
	// Why no driver can start now: NVIDIA's gives up where it cannot reach one of the GPUs.
	Failure string `json:"failure"`
}

type driver struct {
	name, devices, partition, cdi, state string
}

func main() {
	klog.InitFlags(nil)
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	node := flag.String("node-name", "", "whose devices these are")
	kubelet := flag.String("kubelet-dir", "/var/lib/kubelet", "the kubelet's folder")
	plugin := &driver{}
	flag.StringVar(&plugin.name, "driver-name", "gpu.nvidia.com", "of the slices and of the plugin")
	flag.StringVar(&plugin.devices, "devices", "", "file with slices and container edits")
	flag.StringVar(&plugin.partition, "partition", "", "program that makes and removes partitions")
	flag.StringVar(&plugin.cdi, "cdi-dir", "/etc/cdi", "where the container runtime looks for CDI files")
	flag.Parse()
	plugin.state = filepath.Join(*kubelet, "plugins", plugin.name)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, plugin, *kubeconfig, *node, *kubelet); err != nil {
		fmt.Fprintf(os.Stderr, "dra-driver: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, plugin *driver, kubeconfig, node, kubelet string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("-kubeconfig %q: %w", kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	registry := filepath.Join(kubelet, "plugins_registry")
	for _, folder := range []string{plugin.state, registry, plugin.cdi} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	if err := canStart(plugin.devices); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, plugin,
		kubeletplugin.DriverName(plugin.name),
		kubeletplugin.NodeName(node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.PluginDataDirectoryPath(plugin.state),
		kubeletplugin.RegistrarDirectoryPath(registry),
		kubeletplugin.HealthService(false),
	)
	if err != nil {
		return err
	}
	defer helper.Stop()
	return publish(ctx, helper, plugin.devices)
}

func canStart(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var content published
	if err := json.Unmarshal(text, &content); err != nil {
		return err
	}
	if content.Failure != "" {
		return errors.New(content.Failure)
	}
	return nil
}

// publish gives the helper what the file has, now and whenever it changes.
func publish(ctx context.Context, helper *kubeletplugin.Helper, file string) error {
	var before string
	for {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if string(text) != before {
			before = string(text)
			resources, err := resourcesOf(text)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if err := helper.PublishResources(ctx, resources); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(period):
		}
	}
}

func resourcesOf(text []byte) (resourceslice.DriverResources, error) {
	var content published
	if err := json.Unmarshal(text, &content); err != nil {
		return resourceslice.DriverResources{}, err
	}
	pools := map[string]resourceslice.Pool{}
	for _, slice := range content.Slices {
		pool := pools[slice.Spec.Pool.Name]
		pool.Slices = append(pool.Slices, resourceslice.Slice{
			Devices:        slice.Spec.Devices,
			SharedCounters: slice.Spec.SharedCounters,
		})
		pools[slice.Spec.Pool.Name] = pool
	}
	return resourceslice.DriverResources{Pools: pools}, nil
}

func (d *driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	result := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(ctx, claim)
		result[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return result, nil
}

func (d *driver) prepare(ctx context.Context, claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	var prepared []kubeletplugin.Device
	var specs []map[string]any
	var made []string
	for _, given := range claim.Status.Allocation.Devices.Results {
		if given.Driver != d.name {
			continue
		}
		edits, isMade, err := d.edits(ctx, claim.UID, given.Device)
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", given.Device, err)
		}
		if isMade {
			made = append(made, given.Device)
		}
		name := fmt.Sprintf("%s-%s", claim.UID, given.Device)
		specs = append(specs, map[string]any{"name": name, "containerEdits": edits})
		prepared = append(prepared, kubeletplugin.Device{
			Requests:     []string{given.Request},
			PoolName:     given.Pool,
			DeviceName:   given.Device,
			CDIDeviceIDs: []string{kind + "=" + name},
			ShareID:      given.ShareID,
		})
	}
	spec := map[string]any{"cdiVersion": cdiVersion, "kind": kind, "devices": specs}
	if err := write(d.specFile(claim.UID), spec); err != nil {
		return nil, err
	}
	return prepared, write(d.madeFile(claim.UID), made)
}

// edits returns what the device changes in a container, and whether it was made for this claim.
func (d *driver) edits(ctx context.Context, claim types.UID, device string) (json.RawMessage, bool, error) {
	text, err := os.ReadFile(d.devices)
	if err != nil {
		return nil, false, err
	}
	var content published
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, false, err
	}
	if edits, found := content.Edits[device]; found {
		return edits, false, nil
	}
	if d.partition == "" {
		return nil, false, fmt.Errorf("it has no container edits in %s, and no -partition makes it", d.devices)
	}
	// The kubelet asks again after a failure: what was made once is not made twice.
	output, err := d.call(ctx, "prepare", device)
	return output, true, err
}

func (d *driver) call(ctx context.Context, verb, device string) ([]byte, error) {
	command := exec.CommandContext(ctx, d.partition, verb, device)
	var words strings.Builder
	command.Stderr = &words
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s %s: %w: %s", d.partition, verb, device, err, words.String())
	}
	return output, nil
}

func (d *driver) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	result := map[types.UID]error{}
	for _, claim := range claims {
		result[claim.UID] = d.unprepare(ctx, claim.UID)
	}
	return result, nil
}

func (d *driver) unprepare(ctx context.Context, claim types.UID) error {
	text, err := os.ReadFile(d.madeFile(claim))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var made []string
	if err := json.Unmarshal(text, &made); err != nil {
		return err
	}
	for _, device := range made {
		if _, err := d.call(ctx, "unprepare", device); err != nil {
			return err
		}
	}
	for _, file := range []string{d.specFile(claim), d.madeFile(claim)} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (d *driver) HandleError(_ context.Context, err error, msg string) {
	klog.Errorf("%s: %v", msg, err)
}

func (d *driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

func (d *driver) specFile(claim types.UID) string {
	return filepath.Join(d.cdi, fmt.Sprintf("gpu.draguard.dev-claim_%s.json", claim))
}

func (d *driver) madeFile(claim types.UID) string {
	return filepath.Join(d.state, fmt.Sprintf("made-%s.json", claim))
}

func write(file string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	partial := filepath.Join(filepath.Dir(file), ".new-"+filepath.Base(file))
	if err := os.WriteFile(partial, text, 0o644); err != nil {
		return err
	}
	return os.Rename(partial, file)
}
