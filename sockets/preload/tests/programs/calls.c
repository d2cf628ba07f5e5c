// Makes each call that the library hooks, with arguments that the kernel refuses. Marks stand between them.
#define _GNU_SOURCE
#include <unistd.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/signalfd.h>
#include <sys/sendfile.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/wait.h>
#define MARK syscall(-1000 - __COUNTER__)

int main(void) {
    char b[100]; struct iovec v={b,1}; struct msghdr m={0}; struct mmsghdr mm={0}; struct pollfd p={-1}; struct timespec ts={0,1}; struct timeval tv={0,1}; struct epoll_event ev={0}; fd_set fs; FD_ZERO(&fs); int pr[2]; sigset_t ss; sigemptyset(&ss); socklen_t l=0;
    MARK, read(-1,b,1);
    MARK, readv(-1,&v,1);
    MARK, preadv2(-1,&v,1,0,0);
    MARK, recv(-1,b,1,0);
    MARK, recvfrom(-1,b,1,0,0,0);
    MARK, recvmsg(-1,&m,0);
    MARK, recvmmsg(-1,&mm,1,0,0);
    MARK, write(-1,b,1);
    MARK, writev(-1,&v,1);
    MARK, pwritev2(-1,&v,1,0,0);
    MARK, send(-1,b,1,0);
    MARK, sendto(-1,b,1,0,0,0);
    MARK, sendmsg(-1,&m,0);
    MARK, sendmmsg(-1,&mm,1,0);
    MARK, sendfile(-1,-1,0,1);
    MARK, splice(-1,0,-1,0,1,0);
    MARK, socket(-1,0,0);
    MARK, accept(-1,0,0);
    MARK, accept4(-1,0,0,0);
    MARK, connect(-1,0,0);
    MARK, shutdown(-1,0);
    MARK, close(-1);
    MARK, close_range(1000,1001,0);
    MARK, closefrom(1000);
    MARK, dup(-1);
    MARK, dup2(-1,5);
    MARK, dup3(-1,5,0);
    MARK, fcntl(-1,F_GETFL);
    MARK, fcntl(0,F_GETOWN);
    MARK, fcntl(-1,F_DUPFD,3);
    MARK, ioctl(-1,FIONREAD,&l);
    MARK, socketpair(-1,0,0,pr);
    MARK, pipe(pr);
    MARK, pipe2(pr,0);
    MARK, open("/dev/null",0);
    MARK, openat(-1,"x",0);
    MARK, creat("/dev/null",0);
    MARK, eventfd(0,0);
    MARK, timerfd_create(0,0);
    MARK, signalfd(-1,&ss,0);
    MARK, memfd_create("x",0);
    MARK, setsockopt(-1,0,0,0,0);
    MARK, poll(&p,1,0);
    MARK, ppoll(&p,1,&ts,0);
    MARK, ppoll(&p,1,&ts,&ss);
    MARK, select(0,&fs,0,0,&tv);
    MARK, pselect(0,&fs,0,0,&ts,0);
    MARK, pselect(0,&fs,0,0,&ts,&ss);
    MARK, epoll_create(1);
    MARK, epoll_create1(0);
    MARK, epoll_ctl(-1,1,0,&ev);
    MARK, epoll_wait(-1,&ev,1,0);
    MARK, epoll_pwait(-1,&ev,1,0,&ss);
    MARK, epoll_pwait2(-1,&ev,1,&ts,&ss);
    MARK, fdopen(-1,"r");
    MARK, dprintf(-1,"x");
    MARK;
    { FILE*f=fopen("/dev/null","r"); fclose(f);}
    MARK, prctl(PR_GET_DUMPABLE);
    MARK, unshare(0);
    MARK, setns(-1,0);
    MARK, execve("/nonexistent",0,0);
    MARK, execvp("nonexistent",(char*[]){"x",0});
    MARK, setuid(getuid());
    MARK;
    if(!fork()) _exit(0); wait(0);
    MARK;
    if(!vfork()) _exit(0); wait(0);
    MARK, system("true");
    MARK, _exit(0);
}
