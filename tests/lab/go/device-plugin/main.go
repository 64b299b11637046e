// The device plugin of the node lab: what NVIDIA's k8s-device-plugin is to a
// kubelet. It hands out the GPUs of a file that the simulator writes as
// nvidia.com/gpu, each under its UUID.
//
// -devices is JSON: {"edits": {device: CDI containerEdits}}, and the variable
// NVIDIA_VISIBLE_DEVICES of the edits is the UUID.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	endpoint = "draguard-lab.sock"
	variable = "NVIDIA_VISIBLE_DEVICES"
)

type edits struct {
	Env         []string `json:"env"`
	DeviceNodes []struct {
		Path     string `json:"path"`
		HostPath string `json:"hostPath"`
	} `json:"deviceNodes"`
	Mounts []struct {
		HostPath      string `json:"hostPath"`
		ContainerPath string `json:"containerPath"`
	} `json:"mounts"`
}

type plugin struct {
	api.UnimplementedDevicePluginServer
	devices map[string]*api.ContainerAllocateResponse
	done    context.Context
}

func main() {
	devices := flag.String("devices", "", "file with container edits")
	folder := flag.String("folder", api.DevicePluginPath, "the kubelet's folder of device plugins")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *devices, *folder); err != nil {
		fmt.Fprintf(os.Stderr, "device-plugin: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file, folder string) error {
	devices, err := read(file)
	if err != nil {
		return fmt.Errorf("-devices %q: %w", file, err)
	}
	socket := filepath.Join(folder, endpoint)
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, &plugin{devices: devices, done: ctx})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if err := register(ctx, folder); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		server.Stop()
		return nil
	case err := <-ended:
		return err
	}
}

// read returns by UUID what a container with the device gets.
func read(file string) (map[string]*api.ContainerAllocateResponse, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var content struct {
		Edits map[string]edits `json:"edits"`
	}
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, err
	}
	found := map[string]*api.ContainerAllocateResponse{}
	for name, edits := range content.Edits {
		uuid := ""
		given := &api.ContainerAllocateResponse{}
		for _, pair := range edits.Env {
			if key, value, _ := strings.Cut(pair, "="); key == variable {
				uuid = value
			}
		}
		if uuid == "" {
			return nil, fmt.Errorf("%s has no %s", name, variable)
		}
		given.Envs = map[string]string{variable: uuid}
		for _, node := range edits.DeviceNodes {
			given.Devices = append(given.Devices, &api.DeviceSpec{
				ContainerPath: node.Path, HostPath: node.HostPath, Permissions: "rw",
			})
		}
		for _, mount := range edits.Mounts {
			given.Mounts = append(given.Mounts, &api.Mount{
				ContainerPath: mount.ContainerPath, HostPath: mount.HostPath, ReadOnly: true,
			})
		}
		found[uuid] = given
	}
	return found, nil
}

func register(ctx context.Context, folder string) error {
	kubelet := "unix://" + filepath.Join(folder, filepath.Base(api.KubeletSocket))
	connection, err := grpc.NewClient(kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version:      api.Version,
		Endpoint:     endpoint,
		ResourceName: resource,
		Options:      &api.DevicePluginOptions{},
	})
	return err
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch says once that all are healthy: NVIDIA's plugin with its health checks off.
func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	response := &api.ListAndWatchResponse{}
	for uuid := range p.devices {
		response.Devices = append(response.Devices, &api.Device{ID: uuid, Health: api.Healthy})
	}
	if err := stream.Send(response); err != nil {
		return err
	}
	select {
	case <-p.done.Done():
	case <-stream.Context().Done():
	}
	return nil
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		var uuids []string
		all := &api.ContainerAllocateResponse{}
		for _, uuid := range container.DevicesIds {
			given, found := p.devices[uuid]
			if !found {
				return nil, fmt.Errorf("no GPU %s", uuid)
			}
			uuids = append(uuids, uuid)
			all.Devices = append(all.Devices, given.Devices...)
			all.Mounts = given.Mounts
		}
		all.Envs = map[string]string{variable: strings.Join(uuids, ",")}
		response.ContainerResponses = append(response.ContainerResponses, all)
	}
	return response, nil
}
