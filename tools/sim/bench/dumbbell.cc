// SPDX-License-Identifier: GPL-2.0
// The dumbbell of `bench_sim dumbbell` with ns-3: ten pairs over one 10 Gbit/s link, NewReno, an ACK per packet,
// receive windows of 64 segments, so that nothing is lost and both do the same work, the same number of segments.
// Prints how long it took.
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <chrono>
#include <cstdio>
#include <ctime>

using namespace ns3;

static uint64_t hops = 0;

static void
Received(Ptr<const Packet>)
{
    ++hops;
}

static double
CpuSeconds()
{
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int
main(int argc, char** argv)
{
    const uint64_t packets = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000000;
    const uint32_t pairs = 10;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::TcpNewReno")));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 24));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(64 * 1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));

    NodeContainer left, right, routers;
    left.Create(pairs);
    right.Create(pairs);
    routers.Create(2);
    InternetStackHelper stack;
    stack.InstallAll();

    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    link.SetChannelAttribute("Delay", StringValue("10us"));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000p"));
    TrafficControlHelper none; // The device's own queue is the only one.

    Ipv4AddressHelper address;
    address.SetBase("10.0.0.0", "255.255.255.0");
    auto connect = [&](Ptr<Node> a, Ptr<Node> b) {
        NetDeviceContainer devices = link.Install(a, b);
        Ipv4InterfaceContainer interfaces = address.Assign(devices);
        address.NewNetwork();
        none.Uninstall(devices);
        for (uint32_t i = 0; i < 2; ++i)
        {
            devices.Get(i)->TraceConnectWithoutContext("MacRx", MakeCallback(&Received));
        }
        return interfaces;
    };
    connect(routers.Get(0), routers.Get(1));
    ApplicationContainer sinks;
    for (uint32_t i = 0; i < pairs; ++i)
    {
        connect(left.Get(i), routers.Get(0));
        Ipv4InterfaceContainer to = connect(routers.Get(1), right.Get(i));
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5001));
        sinks.Add(sink.Install(right.Get(i)));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(to.GetAddress(1), 5001));
        source.SetAttribute("MaxBytes", UintegerValue(1448 * packets / pairs));
        source.SetAttribute("SendSize", UintegerValue(1448));
        ApplicationContainer app = source.Install(left.Get(i));
        app.Start(MicroSeconds(10 * i));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    const double begin = CpuSeconds();
    Simulator::Stop(Seconds(1000));
    Simulator::Run();
    const double seconds = CpuSeconds() - begin;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < pairs; ++i)
    {
        bytes += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
    }
    std::printf("packets %lu received %lu events %lu seconds %.3f events_per_s %.0f ns3_events %lu\n", packets,
                bytes / 1448, hops, seconds, hops / seconds, Simulator::GetEventCount());
    Simulator::Destroy();
    return bytes >= 1448 * packets * 99 / 100 ? 0 : 1;
}
